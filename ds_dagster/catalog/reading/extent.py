"""Offsets that a store still holds of an entity, and the offset of a moment in it: for plans, starts and backfills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from ds_dagster.catalog.reading.starting import DataLoss, Offsets
from ds_dagster.errors import error


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets of one partition.

    Attributes:
        first: of the first record that is still there.
        begin: of the first record written at or after the moment in question; ``end`` where there is none.
        end: after the last committed record.
        first_time: of the record at ``first``, epoch milliseconds; None where there is none.
        record_bytes: of the key and value of the record at ``first``; 0 where there is none.
    """

    first: int
    begin: int
    end: int
    first_time: int | None = None
    record_bytes: int = 0

    @property
    def lost(self) -> bool:
        """Whether records from the beginning of the partition are gone."""
        return self.first > 0


def from_offsets(
    entity: str, extents: Mapping[str, Extent], offsets: Offsets, data_loss: DataLoss = "fail"
) -> Mapping[str, Extent]:
    """The extents, with named partitions beginning at their offsets.

    Args:
        entity: ``store.entity``, for messages.
        extents: of the whole entity.
        offsets: where named partitions begin.
        data_loss: ``skip``: where the record is gone, the partition begins with the first one that is still there.

    Raises:
        UserError: STARTING_PARTITION_UNKNOWN, STARTING_OFFSET_GONE, STARTING_OFFSET_BEYOND_END (the end is the offset
            of the next record, and is allowed).
    """
    begun = dict(extents)
    for partition, offset in offsets:
        extent = extents.get(str(partition))
        if extent is None:
            partitions = ", ".join(sorted(extents, key=int))
            raise error("STARTING_PARTITION_UNKNOWN", entity=entity, partition=partition, partitions=partitions)
        place: dict[str, Any] = {"entity": entity, "partition": partition, "offset": offset}
        if offset > extent.end:
            raise error("STARTING_OFFSET_BEYOND_END", **place, end=extent.end)
        if offset < extent.first and data_loss == "fail":
            raise error("STARTING_OFFSET_GONE", **place, first=extent.first)
        begun[str(partition)] = replace(extent, begin=max(extent.first, offset))
    return begun


@dataclass(frozen=True, slots=True)
class Landing:
    """The result of looking for the record at a starting offset.

    Attributes:
        is_there: the record exists.
        oldest: offset of the partition's oldest record, if the record does not exist; None where there is none.
        was_possible: the offset is between the first and the last offset that the partition may have given.
    """

    is_there: bool
    oldest: int | None = None
    was_possible: bool = False


def check_landings(
    entity: str, landings: Mapping[int, Landing | None], offsets: Offsets, data_loss: DataLoss = "fail"
) -> None:
    """Check that the record at each offset exists.

    Args:
        entity: ``store.entity``, for messages.
        landings: of every partition.
        offsets: where named partitions begin.
        data_loss: ``skip``: the record may be gone, if older ones are gone too and later ones are there.

    Raises:
        UserError: STARTING_PARTITION_UNKNOWN, STARTING_OFFSET_GONE, STARTING_OFFSET_UNKNOWN.
    """
    for partition, offset in offsets:
        landing = landings.get(partition)
        if landing is None:
            partitions = ", ".join(str(number) for number in sorted(landings))
            raise error("STARTING_PARTITION_UNKNOWN", entity=entity, partition=partition, partitions=partitions)
        if landing.is_there:
            continue
        place: dict[str, Any] = {"entity": entity, "partition": partition, "offset": offset}
        if landing.oldest is None or offset > landing.oldest or not landing.was_possible:
            raise error("STARTING_OFFSET_UNKNOWN", **place)
        if data_loss == "fail":
            raise error("STARTING_OFFSET_GONE", **place, first=landing.oldest)


def check_offsets(
    entity: str, operations: TellsExtents | FindsOffsets, name: str, offsets: Offsets, data_loss: DataLoss = "fail"
) -> None:
    """Look up starting offsets in a store, and refuse those that are not there.

    Args:
        entity: ``store.entity``, for messages.
        operations: of the store.
        name: of the entity, which exists.
        offsets, data_loss: see :func:`from_offsets` and :func:`check_landings`.

    Raises:
        UserError: STARTING_PARTITION_UNKNOWN, STARTING_OFFSET_GONE, STARTING_OFFSET_BEYOND_END,
            STARTING_OFFSET_UNKNOWN. DsError: of the store.
    """
    if isinstance(operations, TellsExtents):
        from_offsets(entity, operations.extents(name), offsets, data_loss)
    else:
        check_landings(entity, operations.landings(name, offsets), offsets, data_loss)


@runtime_checkable
class FindsOffsets(Protocol):
    """Operations on the entities of a store whose records have numbers with gaps, so that only a look at a record
    shows whether it exists."""

    def landings(self, entity: str, offsets: Offsets) -> Mapping[int, Landing | None]:
        """Number of each partition → its landing; None for partitions that ``offsets`` does not name. Raises as
        :meth:`TellsExtents.extents`."""


@runtime_checkable
class TellsExtents(Protocol):
    """Operations on the entities of a store whose records have numbers without gaps by partition."""

    def extents(self, entity: str, since: int | None = None) -> Mapping[str, Extent]:
        """Partition → its extent.

        Args:
            entity: that exists.
            since: moment for ``begin``, epoch milliseconds; None: the first record that is still there.

        Raises:
            DsError: ENTITY_MISSING; of the store.
        """

    def retention_millis(self, entity: str) -> int | None:
        """Least time a record is kept; None: for ever. Raises as :meth:`extents`."""
