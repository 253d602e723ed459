"""The records of functions, one file per family."""
