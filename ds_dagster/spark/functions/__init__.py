"""How Spark computes the functions, casts and aggregates of the dialect."""
