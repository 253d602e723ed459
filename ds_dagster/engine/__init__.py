"""Spark's side of the runtime: hosts, starts and measures queries, and runs a load in the caller's Spark session."""
