"""Functions, casts and aggregates of questions: what DuckDB answers as the dialect does."""
