"""Spark's side of the runtime: the host of queries, their start, their figures, and a load in a caller's session."""
