"""What a store still holds of an entity, and where a moment is in it: for plans and backfills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets of one partition.

    Attributes:
        first: of the first record that is still there.
        begin: of the first record written at or after the moment in question; ``end`` where there is none.
        end: after the last committed record.
        first_time: of the record at ``first``, epoch milliseconds; None where there is none.
        record_bytes: of its key and value.
    """

    first: int
    begin: int
    end: int
    first_time: int | None = None
    record_bytes: int = 0

    @property
    def lost(self) -> bool:
        """Whether records from the beginning are gone."""
        return self.first > 0


@runtime_checkable
class TellsExtents(Protocol):
    """Operations on the entities of a store whose records have numbers without gaps by partition."""

    def extents(self, entity: str, since: int | None = None) -> Mapping[str, Extent]:
        """Partition → what is there.

        Args:
            entity: that exists.
            since: moment, epoch milliseconds; None: the first record that is there.

        Raises:
            DsError: ENTITY_MISSING; of the store.
        """

    def retention_millis(self, entity: str) -> int | None:
        """How long a record stays at least; None for ever. Raises as :meth:`extents`."""
