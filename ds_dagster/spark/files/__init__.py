"""Files of a folder or bucket as a Spark streaming source."""
