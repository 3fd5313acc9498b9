"""One module per benchmark: its options, the command line of one instance, the parser of its output."""
