"""The journal: its tables, its records, its lease."""
