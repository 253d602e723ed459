"""The cost of a change: records that are read again, and how entities differ from the project. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.catalog.reading.volume import Volume


@dataclass(frozen=True, slots=True)
class Reread:
    """A source that is read again, or read by a new query for the first time.

    Attributes:
        entity: ``store.entity``.
        position: starting position.
        records: number of records from the position on, including markers of transactions; of tables the server's
            estimate; None where the store does not count them.
        bytes: estimated size of these records, of a topic from the size of the first record of each partition; of
            tables with indexes, of files as they are stored; None where the store does not say.
        oldest: time of the first of these records, epoch seconds; None without records.
        is_cut: earlier records are gone.
        expires: seconds until retention may remove the oldest record; None if never, or unknown.
    """

    entity: str
    position: str
    records: int | None
    bytes: int | None
    oldest: float | None = None
    is_cut: bool = False
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """Findings of ``ds plan --online`` for one query.

    Attributes:
        reads: sources that are read.
        seconds: estimated time to read them, at the rate of the job's fastest batch; None if the rate is unknown.
        drift: how entities in the stores differ from the project.
        unknown: findings that failed, and why.
    """

    reads: tuple[Reread, ...] = ()
    seconds: float | None = None
    drift: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def reread(
    entity: str, position: str, extents: Mapping[str, Extent], retention_millis: int | None, now: float
) -> Reread:
    """The effort for one source, from the extents that its store reports.

    Args:
        entity, position: see :class:`Reread`; with ``latest`` nothing is read.
        extents: partition → extent from the position on.
        retention_millis: of the entity; None: unlimited, or unknown.
        now: epoch seconds.
    """
    counts = {part: 0 if position == "latest" else extent.end - extent.begin for part, extent in extents.items()}
    sizes = [extent.record_bytes for extent in extents.values() if extent.first_time is not None]
    typical = sum(sizes) / len(sizes) if sizes else 0.0
    times = [extent.first_time for extent in extents.values() if extent.first_time is not None]
    oldest = min(times) / 1000 if times else None
    left = None if oldest is None or retention_millis is None else oldest + retention_millis / 1000 - now
    return Reread(
        entity=entity,
        position=position,
        records=sum(counts.values()),
        bytes=round(sum(counts[p] * (e.record_bytes if e.first_time else typical) for p, e in extents.items())),
        oldest=oldest,
        is_cut=any(extent.lost for extent in extents.values()),
        expires=None if left is None else max(0.0, left),
    )


def reread_of_volume(entity: str, position: str, volume: Volume | None) -> Reread:
    """The effort for one source whose records have no numbers. ``volume``: None where the store estimates none."""
    if position == "latest":
        return Reread(entity, position, 0, 0)
    return Reread(entity, position, *((None, None) if volume is None else (volume.records, volume.bytes)))


def seconds_of(reads: Sequence[Reread], rows_per_second: float | None) -> float | None:
    """Seconds that reading all of them takes; None without reads, without a rate, or if records are not counted."""
    counts = [read.records for read in reads if read.records is not None]
    is_known = bool(reads) and len(counts) == len(reads)
    return sum(counts) / rows_per_second if is_known and rows_per_second else None


def entity_drift(entity: str, plan: EntityPlan, facts: EntityFacts | None) -> Iterator[str]:
    """How an entity differs from its relation. Settings for which the entity has its store's default are not compared.

    Args:
        entity: ``store.entity``.
        plan: of the relation; only counts and settings that the SQL states are compared.
        facts: of the entity; None if it does not exist.
    """
    if facts is None:
        yield f"{entity} is gone"
        return
    for name in sorted(plan.stated):
        if facts.counts.get(name) != plan.counts[name]:
            yield f"{entity}: {name} is {facts.counts.get(name)}, not {plan.counts[name]}"
    for name, value in sorted(plan.settings.items()):
        if facts.settings.get(name, value) != value:
            yield f"{entity}: {name} is {facts.settings[name]}, not {value}"
