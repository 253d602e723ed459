"""Reading a source: where a query starts, which rows it wants, what it skips, how far behind it is."""
