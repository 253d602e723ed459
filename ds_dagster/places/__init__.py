"""Files and folders on disk and in buckets, seen in one way."""
