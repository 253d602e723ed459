"""Journal records → Dagster metadata under one prefix, so that runs, the sensor and checks use the same names."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from ds_dagster.envelope import parameters_of
from ds_dagster.errors import DsError
from ds_dagster.figures import FIGURES, over_queries
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.status import FiniteResult, JobStatus, outlook

if TYPE_CHECKING:
    from ds_dagster.questions.upkeep.difference import Difference

PREFIX = "ds_dagster"
SAMPLES = dg.TableSchema([dg.TableColumn(name, "string") for name in ("row", "key", "before", "after")])
"""Columns of the table of rows that differ."""
SUMMED = frozenset({"lag_records", "lag_seconds", "lost_records", "lost"})
"""Figures of sources that the figures of their query already include; other figures are reported per source."""


def failure_text(outcome: JobStatus | FiniteResult) -> str:
    """Why a request for a query or load failed: message, condition and hint."""
    message = outcome.message or f"it is {outcome.state}"
    condition = f" [{outcome.condition}]" if outcome.condition else ""
    hint = f"\n  hint: {outcome.hint}" if outcome.hint else ""
    return f"{outcome.name}: {message}{condition}{hint}"


def state_metadata(statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """Names, states and logs of queries; empty without statuses."""
    if not statuses:
        return {}
    return {
        f"{PREFIX}/query": ", ".join(status.name for status in statuses),
        f"{PREFIX}/state": ", ".join(dict.fromkeys(status.state for status in statuses)),
        **_logs(statuses),
    }


def log_link(place: str) -> dg.MetadataValue[Any]:
    """A log as a link if its place is an address, else as a path."""
    return dg.MetadataValue.url(place) if place.startswith("http") else dg.MetadataValue.path(place)


def _logs(statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """``log``, or ``log/<query>`` where several queries fill a relation."""
    logs = {status.name: log_link(status.log) for status in statuses if status.log}
    return {f"{PREFIX}/log" + (f"/{name}" if len(logs) > 1 else ""): link for name, link in logs.items()}


def status_metadata(statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """The figures of the jobs that fill one relation, as :data:`ds_dagster.figures.FIGURES` adds them up."""
    if not statuses:
        return {}
    metadata: dict[str, Any] = {
        "incarnation": ", ".join(status.incarnation for status in statuses),
        "checkpoint": max(status.checkpoint_version for status in statuses),
        "fingerprint": ", ".join(status.fingerprint for status in statuses),
    }
    for name, value in over_queries(statuses).items():
        figure = FIGURES[name]
        metadata[figure.name] = timestamp(value) if figure.unit == "moment" else value
    metadata |= _of_sources(statuses)
    return state_metadata(statuses) | {f"{PREFIX}/{name}": value for name, value in metadata.items()}


def transition_metadata(moved: Transition) -> dict[str, Any]:
    """One line of a query's history."""
    metadata: dict[str, Any] = {
        "query": moved.name,
        "from": moved.source,
        "to": moved.target,
        "at": timestamp(moved.at),
        "reason": moved.reason,
        "condition": moved.condition,
        "message": moved.message,
        "incarnation": moved.incarnation,
        "lasted_seconds": round(moved.seconds, 1),
    }
    return {f"{PREFIX}/{name}": value for name, value in metadata.items() if value != ""}


def shape_metadata(moved: Transition) -> dict[str, Any]:
    """A schema change of a source: where the schema is, its versions, the difference, the affected declared columns,
    and what to do."""
    meaning = parameters_of(moved.parameters)
    metadata: dict[str, Any] = {
        **{name: meaning[name] for name in ("registry", "subject", "store", "table") if name in meaning},
        "version": moved.target,
        "version_before": moved.source,
        "difference": meaning["difference"],
        "affected_columns": meaning["columns"],
        "to_do": meaning["fix"],
        "query": moved.name,
        "at": timestamp(moved.at),
        "condition": moved.condition,
    }
    return {f"{PREFIX}/{name}": value for name, value in metadata.items()}


def difference_metadata(result: "Difference") -> dict[str, Any]:
    """How the rows of a new version differ from those of the version that serves: numbers of rows and keys, columns,
    and up to 20 of the rows as a table."""
    counts = result.counts
    types = {name: f"{before} → {after}" for name, (before, after) in result.types.items()}
    metadata: dict[str, Any] = {
        "version_before": result.before,
        "version": result.after,
        "rows_before": result.rows_before,
        "rows": result.rows_after,
        "rows_added": counts.added,
        "rows_removed": counts.removed,
        "rows_changed": counts.changed,
        "columns_changed": dict(counts.columns),
        "column_types": types,
        "columns_new": ", ".join(result.new_columns),
        "columns_lost": ", ".join(result.lost_columns),
        "difference": dg.MetadataValue.table([_record(sample) for sample in counts.samples], SAMPLES),
    }
    return {f"{PREFIX}/{name}": value for name, value in metadata.items() if value not in ("", {})}


def _record(sample: Mapping[str, Any]) -> dg.TableRecord:
    row = "added" if sample["before"] is None else "removed" if sample["after"] is None else "changed"
    sides = {name: sample[name] for name in ("key", "before", "after")}
    texts = {name: "" if side is None else json.dumps(side, ensure_ascii=False) for name, side in sides.items()}
    return dg.TableRecord({"row": row, **texts})


def _of_sources(statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """Figures that only some sources have (``wal_status``, ``lag_bytes`` of a replication slot), as
    ``source/figure``."""
    return {
        f"{source}/{figure}": value
        for status in statuses
        for source, figures in status.details.get("sources", {}).items()
        for figure, value in figures.items()
        if figure not in SUMMED
    }


def finite_metadata(results: Sequence[FiniteResult], queries: Sequence[BoundQuery]) -> dict[str, Any]:
    """Metadata of loads that ended. The row count of the table is known only after a single full load; an incremental
    load knows how many rows it added."""
    rows = sum(result.rows for result in results)
    metadata = {
        f"{PREFIX}/query": ", ".join(result.name for result in results),
        f"{PREFIX}/rows_loaded": rows,
        f"{PREFIX}/batches": sum(result.batches for result in results),
        f"{PREFIX}/seconds": round(sum(result.seconds for result in results), 3),
        f"{PREFIX}/refresh": queries[0].refresh,
    }
    is_whole = len(queries) == 1 and queries[0].refresh == "full"
    return metadata | ({"dagster/row_count": rows} if is_whole else {})


def failure_metadata(statuses: Sequence[JobStatus], tails: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Why launches failed: condition, message and hint per query, and the end of its log."""
    if not statuses:
        return {}
    rows = "\n".join(
        f"| {s.name} | {s.state} | {_again(s)} | {s.condition} | {_cell(s.message)} | {_cell(s.hint)} |"
        for s in statuses
    )
    table = f"| query | state | again | condition | message | hint |\n|---|---|---|---|---|---|\n{rows}"
    metadata: dict[str, Any] = {f"{PREFIX}/failures": dg.MetadataValue.md(table)}
    for name, text in tails:
        metadata[f"{PREFIX}/log/{name}"] = dg.MetadataValue.md(f"```\n{text}\n```")
    return metadata


def _again(status: JobStatus) -> str:
    since = status.next_retry if status.since is None else status.since
    return outlook(status.state, status.next_retry, since or 0.0)


def failure_of(problem: DsError) -> dg.Failure:
    """A failure of a step; it allows Dagster's retries only if a retry can help."""
    return dg.Failure(
        description=str(problem),
        metadata={f"{PREFIX}/condition": problem.condition, f"{PREFIX}/hint": problem.hint},
        allow_retries=problem.fault.hint == "back_off",
    )


def interruption_of(context: dg.AssetExecutionContext, interrupted: BaseException) -> BaseException:
    """What a step raises when it is interrupted. Dagster applies retry policies to interruptions, too: in a run that
    somebody terminates, a step would start again what it has just withdrawn. There it is a failure without retries,
    and Dagster shows the run as canceled; elsewhere (a worker that went away) the interruption itself."""
    run = context.instance.get_run_by_id(context.run.run_id)
    if run is None or run.status not in (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED):
        return interrupted
    return dg.Failure("the run was terminated", allow_retries=False)


def timestamp(seconds: float) -> dg.TimestampMetadataValue:
    """A moment in seconds since the epoch, as metadata."""
    return dg.MetadataValue.timestamp(datetime.fromtimestamp(seconds, tz=timezone.utc))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
