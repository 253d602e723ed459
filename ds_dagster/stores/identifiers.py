"""Names in a store's SQL."""

from __future__ import annotations

from sqlglot import exp


def quoted(name: str) -> exp.Identifier:
    """A name that the store takes to the letter."""
    return exp.to_identifier(name, quoted=True)
