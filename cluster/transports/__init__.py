"""Ways to reach a host: one module each. All of them offer `Transport`."""
