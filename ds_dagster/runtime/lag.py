"""Lag of a running query: what its sources say, and where they say nothing, what a look at their entities found."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ds_dagster.catalog.lag import SourceLag
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.spark.progress import BatchProgress, SourceProgress


@dataclass(frozen=True, slots=True)
class WatchedSource:
    """A source whose entity can be looked at beside the query.

    Attributes:
        entity: as its store spells it; ``shown``: with the store's name.
        identity: of the entity the query reads; empty where nobody knows.
        connection: equal for sources that can share a connection; holds secrets, never shown.
        connect: opens it.
    """

    entity: str
    shown: str
    identity: str
    connection: object = field(repr=False)
    connect: Callable[[], StoreAdmin] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LagLook:
    """What was found behind the positions one batch had read to: its number, and the lag by source name."""

    batch: int
    sources: Mapping[str, SourceLag]


@dataclass(frozen=True, slots=True)
class LagFigures:
    """Lag of a query, see :class:`ds_dagster.runtime.status.JobStatus`; ``details`` as JSON."""

    records: int | None
    seconds: float | None
    details: str


def lag_figures(batch: BatchProgress, look: LagLook | None, now: float) -> LagFigures:
    """Lag of a query after a batch.

    Args:
        batch: the last one.
        look: at the same positions; younger than what the batch itself says.
        now: seconds since the epoch.
    """
    looks: Mapping[str, SourceLag] = look.sources if look is not None and look.batch == batch.batch else {}
    sources = {source.name: _figures(source, looks.get(source.name), now) for source in batch.sources}
    records = [found.get("lag_records") for found in sources.values()]
    seconds = [found.get("lag_seconds") for found in sources.values()]
    return LagFigures(
        None if None in records else sum(int(n) for n in records if n is not None),
        None if None in seconds else max((float(n) for n in seconds if n is not None), default=None),
        json.dumps({"sources": {name: dict(found) for name, found in sources.items()}}, sort_keys=True),
    )


def _figures(source: SourceProgress, look: SourceLag | None, now: float) -> Mapping[str, int | float | str]:
    """Of one source; what is not known is left out."""
    records = source.lag_records if look is None else look.records
    seconds = source.lag_seconds
    if look is not None:
        seconds = None if look.oldest_millis is None else round(max(0.0, now - look.oldest_millis / 1000), 3)
    known: Mapping[str, int | float | str | None] = {
        "lag_records": records,
        "lag_seconds": 0.0 if records == 0 else seconds,
        "lost_records": source.lost_records,
        "lost": source.lost or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def positions_of(source: SourceProgress) -> Mapping[str, int]:
    """Partition → first position that is not read, of offsets like Kafka's (``entity/partition`` → number)."""
    return {name.rpartition("/")[2]: end for name, end in source.end.items() if isinstance(end, int)}
