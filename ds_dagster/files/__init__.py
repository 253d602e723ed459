"""Plain files in a folder or a bucket: where they are, their names, their rows. Knows no Spark and no store."""
