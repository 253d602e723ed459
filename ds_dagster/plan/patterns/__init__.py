"""MATCH_RECOGNIZE: the pattern, its expressions, the node."""
