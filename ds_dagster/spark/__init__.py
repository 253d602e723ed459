"""From plans to Spark: DataFrames, sources and sinks."""
