"""What a store still holds of an entity, and where a moment is in it: for plans and backfills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.reading.starting import Offsets
from ds_dagster.errors import error


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


def from_offsets(entity: str, extents: Mapping[str, Extent], offsets: Offsets) -> Mapping[str, Extent]:
    """The extents, where named partitions begin at their offsets. An offset before the first record is that record's.

    Args:
        entity: ``store.entity``, for messages.
        extents: of the whole entity.
        offsets: of the partitions that are named.

    Raises:
        UserError: STARTING_PARTITION_UNKNOWN, STARTING_OFFSET_BEYOND_END (the end is the offset of the next record, and
            is allowed).
    """
    begun = dict(extents)
    for partition, offset in offsets:
        extent = extents.get(str(partition))
        if extent is None:
            partitions = ", ".join(sorted(extents, key=int))
            raise error("STARTING_PARTITION_UNKNOWN", entity=entity, partition=partition, partitions=partitions)
        if offset > extent.end:
            end = extent.end
            raise error("STARTING_OFFSET_BEYOND_END", entity=entity, partition=partition, offset=offset, end=end)
        begun[str(partition)] = replace(extent, begin=max(extent.first, offset))
    return begun


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
