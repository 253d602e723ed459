"""Names in a store's SQL."""

from __future__ import annotations

from sqlglot import exp


def quoted(name: str) -> exp.Identifier:
    """A quoted name, which the store does not fold."""
    return exp.to_identifier(name, quoted=True)
