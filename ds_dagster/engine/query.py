"""One hosted query: its current state, as figures for the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.clock import Clock
from ds_dagster.engine.lag import LagLook, WatchedSource, lag_figures, named, passed_on
from ds_dagster.engine.shapes import ShapeLook, WatchedShape, known_of
from ds_dagster.errors import DsError
from ds_dagster.figures import Figures, after_batch
from ds_dagster.runtime.host import Observation, Phase, StartOrder
from ds_dagster.spark.jvm import operators, recent_progress
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.queries.progress import BatchProgress, epoch_of, read_progress

WAITING = ("Waiting for data", "Waiting for next trigger")
"""Beginnings of Spark's status message for an idle query, without and with a trigger interval."""
POLL_SECONDS = 0.5
"""Interval at which a running query is observed; an observation takes a few calls into the JVM."""

RATE_WEIGHT = 0.3
"""Weight of the newest batch in the moving average of rows per second."""

EXECUTED = "addBatch"
"""A progress report has this duration if a batch ran; otherwise Spark only looked for new data."""

EMPTY_SECONDS = 3.0
"""Age, from the begin of a trigger, up to which its report that it found nothing counts: queries whose source waits
report that once a second."""

LATE_REPORT_SECONDS = 10.0
"""How much later than expected a report of a query in real-time mode may come: the broker and the checkpoint's file
system take part of it."""

CROWDED_SHARE = 0.15
"""Share of the heap above which the state of one job is reported. Spark's figure leaves out the copy that each batch
makes: a heap of 2 GB held one million groups and ended with two million (docs/growth.md). At 252 bytes a group, the
figure for 100,000 groups, these are 12 and 25 %."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class HostedQuery:
    """One incarnation in this process. The reconciler's thread observes it, worker threads start and end it.

    Attributes:
        rotated: returns the names of secrets that have changed since the job read them.
        places: the entities that the job reads and writes, for messages.
        loaded: rows that a finite run published.
        sources: sources whose lag can be measured outside the query, by name.
        shapes: schemas and tables of its sources, which can change while it runs.
        ruin: why the query must be stopped, or None.
        tasks: task slots that it occupies all the time, in real-time mode; 0 otherwise.
        heap: bytes of the JVM's heap, if its state is kept there; 0 otherwise.
        is_idle: at the last look nothing was left to read.
    """

    order: StartOrder
    clock: Clock
    phase: Phase = "starting"
    prepared: PreparedQuery | None = None
    query: StreamingQuery | None = None
    failure: DsError | None = None
    rotated: Callable[[], tuple[str, ...]] = tuple
    places: str = ""
    loaded: int = 0
    is_stop_asked: bool = False
    is_concluding: bool = False
    progress: Figures = field(default_factory=Figures)
    sources: Mapping[str, WatchedSource] = field(default_factory=dict)
    shapes: tuple[WatchedShape, ...] = ()
    ruin: DsError | None = None
    tasks: int = 0
    heap: int = 0
    is_idle: bool = False
    _looks: Mapping[str, ShapeLook] = field(default_factory=dict)
    _batch: BatchProgress | None = None
    _batch_taken: float = 0.0
    _lag: LagLook | None = None
    _is_crowded: bool = False
    _added: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _counted: int = 0
    _reported: str = ""
    _looked: float = float("-inf")
    _rested_at: float | None = None
    _empty_at: float | None = None

    def observation(self) -> Observation:
        """The current state, for the reconciler."""
        busy = self.query is not None and self.phase in ("starting", "running") and not self.is_idle
        looks = tuple(self._looks.values())
        return Observation(
            self.order.incarnation,
            self.phase,
            self.progress,
            self.failure,
            self.loaded,
            busy,
            shapes=tuple(look.shape for look in looks),
            outdated=next((look.outdated for look in looks if look.outdated), ""),
        )

    def is_due(self) -> bool:
        """Whether it is time to observe again; a starting query is observed in every tick."""
        return self.phase == "starting" or self.clock.monotonic() - self._looked >= POLL_SECONDS

    def has_ended(self) -> bool:
        """Whether Spark's query is over."""
        return self.query is not None and not self.query.isActive

    def look(self) -> None:
        """Read the batches since the last look, and whether the query has read its sources to their end."""
        if self.query is None:
            return
        self._looked = self.clock.monotonic()
        for text in recent_progress(self.query, self._reported):
            self._take(named(read_progress(text), self._entities()))
        self._take_lag()
        self._take_unknown()
        self._take_written()
        self._look_for_idleness(self.query)
        self._ask_clock()
        if self.phase == "starting" and (self.progress.batches or self.is_idle or self._passes_on()):
            self.phase = "running"

    def _passes_on(self) -> bool:
        """Whether a query in real-time mode has begun to pass records on: its first report comes a whole checkpoint
        interval later."""
        if self.prepared is None or self.query is None or self._realtime_millis is None:
            return False
        tracker = self.prepared.session.sparkContext.statusTracker()
        return len(tracker.getJobIdsForGroup(str(self.query.runId))) > 0

    @property
    def _realtime_millis(self) -> int | None:
        return None if self.prepared is None else self.prepared.realtime_millis

    def _take(self, batch: BatchProgress) -> None:
        _LOG.debug("%s: %s", self.order.name, batch)
        before, began = self.progress, epoch_of(batch.timestamp)
        self._reported = batch.timestamp
        self._added |= {source.name: source.added for source in batch.sources if source.added}
        is_at_end = bool(batch.sources) and all(source.lag_records == 0 for source in batch.sources)
        caught_up = began if is_at_end else before.caught_up
        if EXECUTED not in batch.durations:
            self._empty_at = began
            self.progress = replace(before, caught_up=caught_up)
            return
        self._empty_at = None
        rate = before.rows_per_second * (1 - RATE_WEIGHT) + batch.rows_per_second * RATE_WEIGHT
        self.progress = replace(
            after_batch(before, batch),
            rows_per_second=round(rate if before.batches else batch.rows_per_second, 1),
            fastest=max(before.fastest or 0.0, round(batch.rows_per_second, 1)) if batch.rows else before.fastest,
            progressed=self.clock.now() if batch.rows else before.progressed,
            caught_up=caught_up,
        )
        self._batch, self._batch_taken = batch, self.clock.monotonic()

    def _entities(self) -> Mapping[str, str]:
        scans = self.prepared.query.scans if self.prepared is not None else ()
        return {scan.source_name: scan.relation.entity for scan in scans}

    def unread(self) -> BatchProgress | None:
        """The last batch; None if the query is idle (all is read), or if no batch has finished."""
        return None if self.is_idle else self._batch

    def lost(self) -> Mapping[str, str]:
        """Source → records that were skipped because they no longer exist."""
        sources = self._batch.sources if self._batch is not None else ()
        return {source.name: source.lost or str(source.lost_records) for source in sources if source.lost_records}

    def grown(self) -> Sequence[str]:
        """Warnings of changelogs in Kafka that got partitions since they were read; each is given once."""
        added, self._added = self._added, {}
        scans = self.prepared.query.scans if self.prepared is not None else ()
        names = [name for name in added if name in self.sources]  # partitions of others keep their order
        changelogs = [scan for scan in scans if scan.relation.is_changelog and scan.source_name in names]
        return [
            f"the changelog {scan.relation.store}.{scan.relation.entity} has more partitions now "
            f"({', '.join(added[scan.source_name])}): newer rows of a key may be in another one than its older rows, "
            "and a query that reads it from its beginning can end with an older row; write it into a new topic"
            for scan in changelogs
        ]

    def crowding(self) -> str:
        """Which part of the heap its state fills, if that is much; empty otherwise."""
        share = self.progress.state_bytes / self.heap if self.heap else 0.0
        if share < CROWDED_SHARE:
            return ""
        return f"its state fills {share:.0%} of the JVM's heap; QUERY WITH ('state.store' = 'rocksdb') keeps it on disk"

    def crowded(self) -> Sequence[str]:
        """The warning of :meth:`crowding`; it is given once."""
        text = "" if self._is_crowded else self.crowding()
        self._is_crowded = self._is_crowded or bool(text)
        return (text,) if text else ()

    def take(self, look: LagLook) -> None:
        """Store the result of a look at the sources (called from another thread)."""
        self._lag = look

    def _take_lag(self) -> None:
        """Update the lag from the last batch's report and from the last look at the sources."""
        batch, look = self._batch, self._lag
        if batch is None:
            return
        if self._is_reported_in_time():
            batch, look = passed_on(batch, look), None
            caught_up = max(epoch_of(batch.timestamp) or 0.0, self.progress.caught_up or 0.0)
            is_at_end = all(source.lag_records == 0 for source in batch.sources)
            self.progress = replace(self.progress, caught_up=caught_up) if is_at_end else self.progress
        lag = lag_figures(batch, look, self.clock.now())
        mode = mode_text(self.prepared.query.sink) if self.prepared is not None else ""
        crowding = self.crowding()
        details = {**lag.details, **({"mode": mode} if mode else {}), **({"state": crowding} if crowding else {})}
        self.progress = replace(self.progress, lag_records=lag.records, lag_seconds=lag.seconds, details=details)

    def _is_reported_in_time(self) -> bool:
        """Whether the last report of a query in real-time mode is the newest that can be expected. Until the next one,
        looks at the sources count records that are passed on already: all since the last checkpoint."""
        millis = self._realtime_millis
        age = self.clock.monotonic() - self._batch_taken
        return millis is not None and age <= 2 * millis / 1000 + LATE_REPORT_SECONDS

    def look_at(self, watched: WatchedShape, client: Any) -> None:
        """Look at the shape of a source (called from another thread). A change is shown until the next change."""
        before = self._looks.get(watched.key)
        look = watched.look(client, known_of(self._looks, self.order.shapes, watched.key))
        if look is None:
            return
        if before is not None and before.shape.version == look.shape.version:
            look = replace(look, shape=before.shape)
        self._looks = {**self._looks, watched.key: look}

    def _take_unknown(self) -> None:
        """Update the figures on declared columns missing from the newest shapes: their count, and names by source."""
        looks = self._looks
        if not looks:
            return
        unknown: dict[str, tuple[str, ...]] = {}
        for watched in self.shapes:
            if watched.key in looks and looks[watched.key].unknown:
                unknown[watched.source] = (*unknown.get(watched.source, ()), *looks[watched.key].unknown)
        sources = {name: dict(figures) for name, figures in self.progress.details.get("sources", {}).items()}
        for source, columns in unknown.items():
            sources[source] = {**sources.get(source, {}), "unknown_columns": ", ".join(columns)}
        count = sum(map(len, unknown.values()))
        details = {**self.progress.details, "sources": sources}
        self.progress = replace(self.progress, unknown_columns=count, details=details)

    def _take_written(self) -> None:
        """Add rows that loaders have written since the last look; Spark's progress does not include them."""
        written = None if self.prepared is None else self.prepared.rows_loaded
        if written is not None:
            more, self._counted = written - self._counted, written
            self.progress = replace(self.progress, rows_written=(self.progress.rows_written or 0) + more)

    def _look_for_idleness(self, query: StreamingQuery) -> None:
        """After two looks in a row at a waiting query, everything that existed at the first look is processed:
        Spark checks its sources several times between two looks. So is everything that existed when a trigger began
        that found nothing; a source that waits by itself shows no other sign."""
        status, now = query.status, self.clock.now()
        rests = not status["isTriggerActive"] and not status["isDataAvailable"]
        rests = rests and str(status["message"]).startswith(WAITING)
        is_empty = (
            self._empty_at is not None and now - self._empty_at <= EMPTY_SECONDS and not status["isDataAvailable"]
        )
        signs = ((self._rested_at, rests), (self._empty_at, is_empty))
        times = [at for at, holds in signs if holds and at is not None]
        if times:
            self._has_caught_up(max(*times, self.progress.caught_up or 0.0))
        self._rested_at, self.is_idle = now if rests else None, rests or is_empty

    def _has_caught_up(self, at: float) -> None:
        """Everything that existed at a time is processed, and nothing has been found since."""
        records = None if self.progress.lag_records is None else 0
        self.progress = replace(self.progress, caught_up=at, rows_per_second=0.0, lag_seconds=0.0, lag_records=records)

    def _ask_clock(self) -> None:
        """Update the watermark of a query that the engine's event-time clock drives."""
        if self.prepared is None or not self.prepared.clock:
            return
        snapshot = operators(self.prepared.session).clock_snapshot(self.prepared.job_name)
        if snapshot is None:
            return
        if snapshot["time_micros"]:
            self.progress = replace(self.progress, watermark=snapshot["time_micros"] / 1e6)
