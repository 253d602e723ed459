"""The records of functions, a file per family."""
