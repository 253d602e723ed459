"""Journal records → Dagster metadata, one prefix, so that a run, the sensor and a check say the same thing in the same words."""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import dagster as dg

from ds_dagster.runtime.status import FiniteResult, JobStatus

PREFIX = "ds_dagster"


def status_metadata(statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """Numbers of the jobs that fill one relation: sums of rows and lag records, the worst lag, the oldest watermark."""
    first = statuses[0]
    metadata: dict[str, Any] = {
        f"{PREFIX}/query": ", ".join(status.name for status in statuses),
        f"{PREFIX}/state": ", ".join(dict.fromkeys(status.state for status in statuses)),
        f"{PREFIX}/incarnation": ", ".join(status.incarnation for status in statuses),
        f"{PREFIX}/checkpoint": first.checkpoint_version,
        f"{PREFIX}/fingerprint": first.fingerprint,
        f"{PREFIX}/rows": sum(status.rows for status in statuses),
        f"{PREFIX}/rows_per_second": round(sum(status.rows_per_second for status in statuses), 1),
        f"{PREFIX}/late_rows": sum(status.late_rows for status in statuses),
        f"{PREFIX}/bad_records": sum(status.bad_records for status in statuses),
        f"{PREFIX}/state_rows": sum(status.state_rows for status in statuses),
    }
    if (batch := max((s.batch for s in statuses if s.batch is not None), default=None)) is not None:
        metadata[f"{PREFIX}/batch"] = batch
    lag = [status.lag_records for status in statuses if status.lag_records is not None]
    if lag:
        metadata[f"{PREFIX}/lag_records"] = sum(lag)
    seconds = [status.lag_seconds for status in statuses if status.lag_seconds is not None]
    if seconds:
        metadata[f"{PREFIX}/lag_seconds"] = round(max(seconds), 3)
    marks = [status.watermark for status in statuses if status.watermark is not None]
    if marks:
        metadata[f"{PREFIX}/watermark"] = dg.MetadataValue.timestamp(datetime.fromtimestamp(min(marks), tz=timezone.utc))
    return metadata


def finite_metadata(result: FiniteResult) -> dict[str, Any]:
    """Of a finished load."""
    return {
        "dagster/row_count": result.rows,
        f"{PREFIX}/query": result.name,
        f"{PREFIX}/batches": result.batches,
        f"{PREFIX}/seconds": round(result.seconds, 3),
    }


def failure_metadata(statuses: Sequence[JobStatus], tails: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Why launches failed: condition, message and hint per query, and the end of its log."""
    rows = "\n".join(f"| {s.name} | {s.state} | {s.condition} | {s.message} | {s.hint} |" for s in statuses)
    table = f"| query | state | condition | message | hint |\n|---|---|---|---|---|\n{rows}"
    metadata: dict[str, Any] = {f"{PREFIX}/failures": dg.MetadataValue.md(table)}
    for name, text in tails:
        metadata[f"{PREFIX}/log/{name}"] = dg.MetadataValue.md(f"```\n{text}\n```")
    return metadata
