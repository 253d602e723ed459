"""Lag of a running query: as a recent look at its sources' entities measured it, else as the sources report it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ds_dagster.catalog.reading.lag import SourceLag
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.spark.queries.progress import BatchProgress, SourceProgress, epoch_of

LOOK_VALID_SECONDS = 30.0
"""A look that is older counts as unknown; several rounds of looks."""
AT_ONCE_SECONDS = 2.0
"""A record that came at most this long before the end of a batch in real-time mode did not wait: clocks differ, and the
tasks of a batch end one after the other."""


@dataclass(frozen=True, slots=True)
class WatchedSource:
    """A source whose entity can be read next to the query, for its lag.

    Attributes:
        entity: as its store spells it.
        shown: with the store's name.
        identity: identity of the entity that the query reads; empty if unknown.
        connection: equal for sources that can share a connection; holds secrets, never shown.
        connect: opens the connection.
    """

    entity: str
    shown: str
    identity: str
    connection: object = field(repr=False)
    connect: Callable[[], StoreAdmin] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LagLook:
    """Result of a look: the lag after the positions that a batch has read.

    Attributes:
        batch: number of the batch.
        at: time of the look, seconds since the epoch.
        sources: lag by source name.
    """

    batch: int | None
    at: float
    sources: Mapping[str, SourceLag]

    def of(self, source: SourceProgress, batch: int | None, now: float) -> tuple[int | None, float | None]:
        """Records and seconds of a source. For the batch the look was taken after, the look is newer than Spark's
        report; for a later batch its age is an upper bound."""
        lag = self.sources.get(source.name)
        if lag is None:
            return source.lag_records, source.lag_seconds
        is_same = batch == self.batch
        records = lag.records if is_same else source.lag_records
        if lag.oldest_millis is None:
            return records, None
        return records, round(max(0.0, (now if is_same else self.at) - lag.oldest_millis / 1000), 3)


@dataclass(frozen=True, slots=True)
class LagFigures:
    """Lag of a query; for all fields see :class:`ds_dagster.runtime.status.JobStatus`."""

    records: int | None
    seconds: float | None
    details: Mapping[str, Any]


def lag_figures(batch: BatchProgress, look: LagLook | None, now: float) -> LagFigures:
    """Lag of a query after a batch.

    Args:
        batch: the last batch.
        look: the last look; ignored if older than :data:`LOOK_VALID_SECONDS`.
        now: seconds since the epoch.
    """
    if look is not None and now - look.at > LOOK_VALID_SECONDS:
        look = None
    sources = {source.name: _figures(source, look, batch.batch, now) for source in batch.sources}
    records = [figures.get("lag_records") for figures in sources.values()]
    seconds = [figures.get("lag_seconds") for figures in sources.values()]
    return LagFigures(
        None if None in records else sum(int(n) for n in records if n is not None),
        None if None in seconds else max((float(n) for n in seconds if n is not None), default=None),
        {"sources": {name: dict(figures) for name, figures in sources.items()}},
    )


def _figures(
    source: SourceProgress, look: LagLook | None, batch: int | None, now: float
) -> Mapping[str, int | float | str]:
    """Figures of one source; unknown figures are omitted."""
    records, seconds = (source.lag_records, source.lag_seconds) if look is None else look.of(source, batch, now)
    figures: Mapping[str, int | float | str | None] = {
        "lag_records": records,
        "lag_seconds": 0.0 if records == 0 else seconds,
        "lost_records": source.lost_records,
        "lost": source.lost or None,
        **source.facts,
    }
    return {name: value for name, value in figures.items() if value is not None}


def passed_on(batch: BatchProgress, look: LagLook | None) -> BatchProgress:
    """The report of a batch in real-time mode, with what waited at its end.

    Such a batch ends before the markers of transactions, and Spark compares its end with the topic's end at its begin.
    So records wait only if a look finds one that was there when the batch ended.

    Args:
        batch: as reported, with the names of its sources.
        look: the last look; without one of this batch the lag is unknown unless Spark reports none.
    """
    own = look if look is not None and look.batch == batch.batch else None
    end = (epoch_of(batch.timestamp) or 0.0) + batch.duration_millis / 1000
    return replace(batch, sources=tuple(_passed_on(source, own, end) for source in batch.sources))


def _passed_on(source: SourceProgress, look: LagLook | None, end: float) -> SourceProgress:
    lag = None if look is None else look.sources.get(source.name)
    if source.lag_records == 0:
        return source
    if lag is None:
        return replace(source, lag_records=None, lag_seconds=None)
    waited = 0.0 if lag.oldest_millis is None else end - lag.oldest_millis / 1000
    if waited <= AT_ONCE_SECONDS:
        return replace(source, lag_records=0, lag_seconds=0.0)
    return replace(source, lag_seconds=round(waited, 3))


def named(batch: BatchProgress, entities: Mapping[str, str]) -> BatchProgress:
    """The batch with the names of its sources in place of Spark's descriptions.

    Args:
        batch: as reported.
        entities: source name → entity, with which the source's offsets begin. Two sources over one entity cannot be
            told apart.
    """
    left = dict(entities)
    sources = []
    for source in batch.sources:
        parts = {position.partition("/")[0] for position in source.end}
        name = next((name for name, entity in left.items() if entity in parts), None)
        left.pop(name or "", None)
        sources.append(source if name is None else replace(source, name=name))
    return replace(batch, sources=tuple(sources))


def positions_of(source: SourceProgress) -> Mapping[str, int]:
    """Partition → first unread position, from offsets like Kafka's (``entity/partition`` → number)."""
    return {name.rpartition("/")[2]: end for name, end in source.end.items() if isinstance(end, int)}
