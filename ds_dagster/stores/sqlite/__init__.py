"""SQLite, where views are kept."""
