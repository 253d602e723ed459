"""WITH properties: the one table of them, and their values."""
