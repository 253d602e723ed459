"""Spark's progress report of a batch, as a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import reduce
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.figures import Figures, added
from ds_dagster.spark.records.bad_records import bad_records_metric

Positions = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source of a batch.

    Attributes:
        name: name of the source in the checkpoint, or Spark's description of it.
        rows: number of rows that the batch read.
        end: partition → position up to which it is read.
        latest: partition → newest known position; empty if the source does not report it.
        lag_records: number of unread records, None if positions are not numbers.
        lag_seconds: age of the oldest unread record, None if the source does not report it.
        lost_records: number of records skipped since the query started because they no longer existed; see
            :data:`LOST`.
        lost: which records were skipped, as text.
        facts: other figures of the source (``wal_status``, ``lag_bytes``), by name; empty for most sources.
        added: partitions that this batch is the first to know, of a query that has read before.
    """

    name: str
    rows: int
    end: Positions
    latest: Positions
    lag_records: int | None
    lag_seconds: float | None = None
    lost_records: int = 0
    lost: str = ""
    facts: Positions = field(default_factory=lambda: MappingProxyType({}))
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchProgress(Figures):
    """One batch of a query: its figures, and the positions of its sources.

    Attributes:
        timestamp: time of its trigger, ISO 8601 UTC.
        duration_millis: duration of the whole batch.
        sources: data sources, without tick sources.
        durations: Spark's steps → milliseconds.
    """

    timestamp: str = ""
    duration_millis: int = 0
    sources: tuple[SourceProgress, ...] = ()
    durations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


_TICKS = "ds-ticks"
_BEHIND = "/millis_behind"
LOST = "lost_records"
"""Name of the number of records that a source skipped since the query started because they no longer existed. A source
in the JVM reports it as a metric (and as ``lost`` which records); a Python source reports it in its partitions, next to
``millis_behind``."""
_OF_LAG = ("complete_until", "millis_behind", "finished", "lost_records")
_BAD = bad_records_metric("")
_VIOLATIONS = "violations_"
"""Prefix of the names of observations of constraints: relation.constraint → number of violating rows, place of one."""
_WRITTEN = "rows_written_"
"""Prefix of the names of observations that count rows for a sink whose rows Spark does not count."""


def read_progress(progress: str | Mapping[str, Any]) -> BatchProgress:
    """The record of a ``StreamingQueryProgress`` (its JSON, as text or parsed)."""
    report: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    sources = tuple(_source(s) for s in report["sources"] if not str(s.get("description", "")).startswith(_TICKS))
    lags = [source.lag_records for source in sources]
    state = report.get("stateOperators") or []
    durations = {str(k): int(v) for k, v in (report.get("durationMs") or {}).items()}
    millis = durations.get("triggerExecution", int(report.get("batchDuration") or 0))
    rows = sum(source.rows for source in sources)
    observed = report.get("observedMetrics") or {}
    return BatchProgress(
        batch=int(report["batchId"]),
        timestamp=str(report["timestamp"]),
        batches=1,
        rows=rows,
        rows_per_second=round(1000 * rows / millis, 1) if millis else 0.0,
        duration_millis=millis,
        sources=sources,
        lag_records=None if None in lags else sum(lag for lag in lags if lag is not None),
        lag_seconds=_worst(sources),
        lost_records=sum(source.lost_records for source in sources),
        watermark=epoch_of(str((report.get("eventTime") or {}).get("watermark", ""))),
        state_rows=sum(int(operator["numRowsTotal"]) for operator in state),
        state_bytes=sum(int(operator["memoryUsedBytes"]) for operator in state),
        late_rows=sum(int(operator["numRowsDroppedByWatermark"]) for operator in state),
        bad_records=sum(_observed(observed, _BAD)),
        violations=_violations(observed),
        rows_written=_rows_written(int((report.get("sink") or {}).get("numOutputRows", -1)), observed),
        durations=MappingProxyType(durations),
    )


def epoch_of(text: str) -> float | None:
    """Seconds since 1970 of Spark's ISO 8601 text; None for no text and for the epoch (no event time)."""
    if not text:
        return None
    seconds = datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=timezone.utc).timestamp()
    return seconds or None


def _worst(sources: Iterable[SourceProgress]) -> float | None:
    ages = [0.0 if source.lag_records == 0 else source.lag_seconds for source in sources]
    return None if None in ages else max((age for age in ages if age is not None), default=None)


def _source(source: Mapping[str, Any]) -> SourceProgress:
    end, latest = _positions(source.get("endOffset")), _positions(source.get("latestOffset"))
    begin = _positions(source.get("startOffset"))
    metrics = source.get("metrics") or {}
    behind = [value for name, value in latest.items() if name.endswith(_BEHIND) and isinstance(value, int)]
    skipped = [value for name, value in latest.items() if name.endswith(f"/{LOST}") and isinstance(value, int)]
    return SourceProgress(
        name=str(source.get("name") or source.get("description") or ""),
        rows=int(source.get("numInputRows") or 0),
        end=MappingProxyType(end),
        latest=MappingProxyType(latest),
        lag_records=_lag(end, latest),
        lag_seconds=max(behind) / 1000 if behind and min(behind) >= 0 else None,  # below 0: not known of a shard
        lost_records=int(metrics.get(LOST) or 0) + sum(skipped),
        lost=str(metrics.get("lost") or ""),
        facts=MappingProxyType(_facts(latest)),
        added=tuple(name for name in end if name not in begin) if begin else (),
    )


def _facts(latest: Mapping[str, int | str]) -> dict[str, int | str]:
    """Other figures of a source; only for a source with one partition."""
    if sum(name.endswith(_BEHIND) for name in latest) != 1:
        return {}
    named = {name.rpartition("/")[2]: value for name, value in latest.items()}
    return {name: json.loads(str(value)) for name, value in named.items() if name not in _OF_LAG}


def _lag(end: Mapping[str, int | str], latest: Mapping[str, int | str]) -> int | None:
    behind = [value for name, value in latest.items() if name.endswith(_BEHIND)]
    if behind:  # the source knows how late its shards are, not how many records wait
        return 0 if all(value == 0 for value in behind) else None
    numbers = [(latest[name], end.get(name, 0)) for name in latest]
    if not numbers or not all(isinstance(a, int) and isinstance(b, int) for a, b in numbers):
        return 0 if latest and latest == end else None
    return sum(max(0, int(newest) - int(read)) for newest, read in numbers)


def _positions(offset: Any) -> dict[str, int | str]:
    """Flattened offsets of any source: ``{"topic": {"0": 5}}`` → ``{"topic/0": 5}``; values that are not numbers are
    JSON text."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {"": offset}
    if isinstance(offset, int):
        return {"": offset}
    if not isinstance(offset, dict):
        return {}
    return {
        "/".join(path): value if isinstance(value, int) else json.dumps(value, sort_keys=True)
        for path, value in _leaves(offset, ())
    }


def _leaves(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in node.items():
        if isinstance(value, dict) and len(path) == 0:
            yield from _leaves(value, (*path, str(name)))
        else:
            yield (*path, str(name)), value


def counted(frame: DataFrame, sink: str) -> DataFrame:
    """The frame, with its rows counted in the progress of its query; for sinks that get their batches by
    ``foreachBatch``, whose rows Spark does not count."""
    return frame.observe(_WRITTEN + sink, sf.count(sf.lit(1)).alias("rows"))


def _rows_written(by_spark: int, observed: Mapping[str, Any]) -> int | None:
    """Rows that a batch has written: from Spark, or from :func:`counted`; None if the sink counts by itself."""
    ours = list(_observed(observed, _WRITTEN))
    return by_spark if by_spark >= 0 else sum(ours) if ours else None


def violations_metric(query: str) -> str:
    """Name of the observation for the constraints of a query or a source of this name."""
    return f"{_VIOLATIONS}{query}"


def _violations(observed: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """``relation.constraint`` → number of violating rows, and the place of one of them; None if nothing is violated."""
    counts = [
        {label: {name: value for name, value in count.items() if value}}
        for name, row in observed.items()
        if name.startswith(_VIOLATIONS) and row is not None
        for label, count in row.items()
        if count["rows"]
    ]
    return reduce(added, counts) if counts else None


def _observed(observed: Mapping[str, Any], prefix: str) -> Iterator[int]:
    for name, row in observed.items():
        if name.startswith(prefix) and row is not None:
            values = row.values() if isinstance(row, dict) else row
            yield from (int(value) for value in values)
