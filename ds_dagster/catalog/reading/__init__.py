"""Reading a source: starting position, wanted rows, skipped records, lag."""
