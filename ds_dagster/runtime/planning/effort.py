"""What a change costs: records that are read again, and how an entity differs from what the project says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.reading.extent import Extent


@dataclass(frozen=True, slots=True)
class Reread:
    """A source that is read again, or by a new query for the first time.

    Attributes:
        entity: ``store.entity``.
        position: it begins at.
        records: how many are there from it on; markers of transactions among them.
        bytes: of them, by the size of the first record of each partition.
        oldest: time of the first record that is there, epoch seconds; None without records.
        is_cut: records before it are gone.
        expires: seconds until retention may remove the oldest one; None if never, or unknown.
    """

    entity: str
    position: str
    records: int
    bytes: int
    oldest: float | None = None
    is_cut: bool = False
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """What ``ds plan --online`` finds for one query.

    Attributes:
        reads: sources that are read.
        seconds: it takes, by the job's fastest batch; None if that is not known.
        drift: how what is in the stores differs from what the project says.
        unknown: what could not be found out, and why.
    """

    reads: tuple[Reread, ...] = ()
    seconds: float | None = None
    drift: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def reread(
    entity: str, position: str, extents: Mapping[str, Extent], retention_millis: int | None, now: float
) -> Reread:
    """One source, of what its store says.

    Args:
        entity, position: see :class:`Reread`; ``latest`` reads nothing.
        extents: by partition, since the position.
        retention_millis: of the entity; None for ever, or unknown.
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


def seconds_of(reads: Sequence[Reread], rows_per_second: float | None) -> float | None:
    """How long reading them takes; None without a rate."""
    return sum(read.records for read in reads) / rows_per_second if reads and rows_per_second else None


def entity_drift(entity: str, plan: EntityPlan, facts: EntityFacts | None) -> Iterator[str]:
    """How an entity differs from what a relation says of it. A setting that the entity does not have of its own is its
    store's default, which is not compared.

    Args:
        entity: ``store.entity``.
        plan: of the relation: counts that are stated, settings that are written.
        facts: of the entity; None where it does not exist.
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
