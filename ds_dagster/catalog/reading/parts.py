"""Names of an entity's shards, for stores that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class NamesParts(Protocol):
    """An admin of a store whose entities are divided into parts with names. The partitions of a topic are numbers,
    which :attr:`EntityFacts.counts` bounds."""

    def parts(self, entity: str) -> Sequence[str]:
        """Names of all parts that may hold records, closed parts included; empty if the entity does not exist."""
