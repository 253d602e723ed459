"""Results of SELECTs on the command line: shown, written to a file, or repeated."""
