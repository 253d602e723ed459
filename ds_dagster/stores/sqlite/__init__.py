"""SQLite, the embedded store of views."""
