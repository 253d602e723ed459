"""Hints for statements of other dialects: known mistakes, foreign forms, rewritten statements."""
