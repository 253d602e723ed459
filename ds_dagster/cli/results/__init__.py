"""Results of SELECTs on the command line: how they are shown, written to a file, and asked again."""
