"""Several hosts on one machine, for tests and benchmarks of what runs over SSH."""
