"""One hosted query: what it does now, as figures the journal keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.errors import DsError
from ds_dagster.runtime.clock import Clock
from ds_dagster.runtime.host import Observation, Phase, Progress, StartOrder
from ds_dagster.spark.jvm import operators, recent_progress
from ds_dagster.spark.progress import BatchProgress, read_progress
from ds_dagster.spark.query import PreparedQuery

POLL_SECONDS = 0.5
"""How often a running query is looked at: a few calls into the JVM each."""

RATE_WEIGHT = 0.3
"""Weight of the newest batches in the shown rate."""

EXECUTED = "addBatch"
"""A report has this duration when a batch was run; without, Spark only looked."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class HostedQuery:
    """One incarnation in this process. The reconciler's thread looks at it, worker threads start and end it."""

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
    progress: Progress = field(default_factory=Progress)
    _reported: str = ""
    _looked: float = float("-inf")
    _idle_since: float | None = None

    def observation(self) -> Observation:
        """What it is now."""
        return Observation(self.order.incarnation, self.phase, self.progress, self.failure, self.loaded)

    def is_due(self) -> bool:
        """Whether it is time to look again; one that starts is looked at in every tick."""
        return self.phase == "starting" or self.clock.monotonic() - self._looked >= POLL_SECONDS

    def has_ended(self) -> bool:
        """Whether Spark's query is over."""
        return self.query is not None and not self.query.isActive

    def look(self) -> None:
        """Take in the batches since the last look, and whether its sources are read to their end."""
        if self.query is None:
            return
        self._looked = self.clock.monotonic()
        for text in recent_progress(self.query, self._reported):
            self._take(read_progress(text))
        self._look_for_idleness(self.query)
        self._ask_clock()
        if self.phase == "starting" and (self.progress.batches or self._idle_since is not None):
            self.phase = "running"

    def _take(self, batch: BatchProgress) -> None:
        _LOG.debug("%s: %s", self.order.name, batch)
        before, began = self.progress, _epoch(batch.timestamp)
        self._reported = batch.timestamp
        is_at_end = bool(batch.sources) and all(source.lag_records == 0 for source in batch.sources)
        caught_up = began if is_at_end else before.caught_up
        if EXECUTED not in batch.durations:
            self.progress = replace(before, caught_up=caught_up)
            return
        rate = before.rows_per_second * (1 - RATE_WEIGHT) + batch.rows_per_second * RATE_WEIGHT
        self.progress = replace(
            before,
            batch=batch.batch,
            batches=before.batches + 1,
            rows=before.rows + batch.input_rows,
            rows_per_second=round(rate if before.batches else batch.rows_per_second, 1),
            lag_records=batch.lag_records,
            lag_seconds=0.0 if batch.lag_records == 0 else None,
            watermark=_epoch(batch.watermark) or before.watermark,
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            late_rows=before.late_rows + batch.late_rows,
            bad_records=before.bad_records + batch.bad_records,
            progressed=self.clock.now() if batch.input_rows else before.progressed,
            caught_up=caught_up,
        )

    def _look_for_idleness(self, query: StreamingQuery) -> None:
        """Two looks in a row that find the query waiting for data: what existed at the first one is processed, since
        Spark looks several times between ours."""
        status = query.status
        waits = not status["isTriggerActive"] and not status["isDataAvailable"]
        waits = waits and str(status["message"]).startswith("Waiting for data")
        if waits and self._idle_since is not None:
            before = self.progress
            caught_up = max(self._idle_since, before.caught_up or 0.0)
            self.progress = replace(before, caught_up=caught_up, rows_per_second=0.0, lag_seconds=0.0)
        self._idle_since = self.clock.now() if waits else None

    def _ask_clock(self) -> None:
        """Event time, its lag, and rows that came too late, of a query the engine's clock drives."""
        if self.prepared is None or not self.prepared.clock:
            return
        snapshot = operators(self.prepared.session).clock_snapshot(self.prepared.job_name)
        if snapshot is None:
            return
        newest = [found["newest_micros"] for found in snapshot["inputs"].values() if found["newest_micros"]]
        changes: dict[str, float] = {}
        if snapshot["time_micros"]:
            changes["watermark"] = snapshot["time_micros"] / 1e6
        if newest:
            changes["lag_seconds"] = round(max(0.0, self.clock.now() - max(newest) / 1e6), 3)
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]


def _epoch(text: str) -> float | None:
    """Seconds since 1970 of Spark's ISO 8601 text; None for none and for the epoch itself (no event time yet)."""
    if not text:
        return None
    seconds = datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=timezone.utc).timestamp()
    return seconds or None
