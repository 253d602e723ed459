"""Lag of a reader, looked up in the store where the source itself does not report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SourceLag:
    """One look at an entity.

    Attributes:
        records: committed records after the read positions.
        oldest_millis: timestamp of the oldest record that is not read yet (epoch ms, as its broker or producer set it);
            None if all is read, or if it could not be read.
        identity: of the entity, see ``EntityFacts``; empty if unknown.
    """

    records: int
    oldest_millis: int | None = None
    identity: str = ""


@runtime_checkable
class LagProbe(Protocol):
    """Lag of a source, offered by a store's control connection where the source does not report its own. Optional."""

    def lag(self, entity: str, positions: Mapping[str, int]) -> SourceLag:
        """Look once, within ten seconds.

        Args:
            entity: as the store spells it.
            positions: partition → first position that is not read; a partition that is missing is not read at all.

        Raises:
            DsError: STORE_… as the other calls; UserError ENTITY_ABSENT.
        """

    def identity(self, entity: str) -> str:
        """Identity of the entity that has this name now; empty when no such entity exists or the store has no
        identities."""
