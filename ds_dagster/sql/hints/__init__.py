"""Hints for statements that cannot be parsed: common mistakes, forms of other dialects, rewritten statements."""
