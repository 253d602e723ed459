"""The status that people see: desired state, the engine's last report, and whether that report is still current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ds_dagster.errors import DsError, error
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.deciding.version_hints import hint_of_version
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import JobRow, StatusRow, Transition
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.journals.states import ACTIVE, PENDING
from ds_dagster.runtime.status import UP, EngineStatus, JobStatus

_IDLE = frozenset({"ABSENT", "STOPPED", "UNKNOWN"})
_ANSWERING = frozenset({"RUNNING", "STARTING", "STOPPING"})


@dataclass(frozen=True, slots=True)
class JobSurroundings:
    """Facts for a job's status that are not in its rows.

    Attributes:
        engine: the engine that the job belongs to.
        identity: of the project's jobs.
        silent: seconds since the engine's last beat.
        now: epoch seconds.
        held: jobs whose open run is held by a living Dagster step.
        pool: compute pool of the engine; empty: the project's own.
    """

    engine: EngineStatus
    identity: Identity
    silent: float
    now: float
    held: frozenset[str] = frozenset()
    pool: str = ""


def job_status(job: JobRow, written: StatusRow | None, surroundings: JobSurroundings, log: str = "") -> JobStatus:
    """Combine a job's desired state with its last written status.

    A state with a query, or before a start, is current only while its writer lives: the engine that holds the lock and
    the lease, or the step that holds the run. Otherwise the state is UNKNOWN. Settled states (FAILED, STOPPED,
    FINISHED) stay. If the engine is gone, a job with desired state STOPPED is shown as STOPPED or FINISHED.
    """
    status, engine, silent = written or StatusRow(job.name), surroundings.engine, surroundings.silent
    values: dict[str, Any] = {item.name: getattr(status, item.name) for item in fields(status)}
    values["reported_generation"] = values.pop("generation")
    values["since"] = values["since"] or None
    writer = values.pop("writer")
    del values["streak"], values["pool"]
    values["pool"] = pool = surroundings.pool
    lives = (
        job.name in surroundings.held if writer == STEP else engine.state in _ANSWERING and writer == engine.token != ""
    )
    if engine.state == "GONE" and job.desired == "STOPPED" and job.name not in surroundings.held:
        state = "FINISHED" if status.state == "FINISHED" else "STOPPED"
        values |= {"state": state, "reported_generation": job.generation}
    elif not lives and status.state in ACTIVE | PENDING:
        values |= _unheard(engine, silent, pool, state="UNKNOWN")
    elif engine.state == "GONE" and status.state == "ABSENT" and job.desired == "RUNNING" and not status.condition:
        has_ended = status.incarnation and status.pool == pool  # not one that moves here from another engine
        values |= _said(_ended(pool) if has_ended else not_running(pool), "ABSENT")
    if status.state in PENDING or not lives or status.state == "FAILED":
        values |= _lag_since(status, surroundings.now)
    values["hint"] = hint_of_version(values["hint"], job)
    return JobStatus(
        **values,
        job_id=surroundings.identity.job_id(job.writes_as),
        relation=job.relation,
        desired=job.desired,
        generation=job.generation,
        wanted_fingerprint=job.fingerprint,
        query=job.query,
        version=job.version,
        role=job.role,
        identity=job.identity,
        log=log,
    )


def not_running(pool: str) -> DsError:
    """The error that an engine does not run. ``pool``: of the missing engine; empty: the project's own."""
    return error("POOL_ENGINE_NOT_RUNNING", pool=pool) if pool else error("ENGINE_NOT_RUNNING")


def _ended(pool: str) -> DsError:
    """An engine ended as asked. ``pool``: of the engine; empty: the project's own."""
    return error("ENGINE_STOPPED", command=f"ds engine start --pool {pool}" if pool else "ds engine start")


def _unheard(engine: EngineStatus, silent: float, pool: str, state: str) -> dict[str, str]:
    problem: DsError
    if engine.state == "UNKNOWN":
        problem = error("ENGINE_SILENT", pid=engine.pid, host=engine.host, seconds=int(silent))
    else:
        gone = engine.state == "GONE" or (engine.state == "STOPPING" and not engine.token)
        problem = not_running(pool) if gone else error("ENGINE_TAKES_OVER")
    return _said(problem, state)


def _said(problem: DsError, state: str) -> dict[str, str]:
    return {"state": state, "condition": problem.condition, "message": problem.message, "hint": problem.hint}


def _lag_since(status: StatusRow, now: float) -> dict[str, float | None]:
    """Lag of a job without a query. Records that waited at its last report still wait, and grow older; if it had read
    everything, its lag is unknown."""
    if not status.lag_seconds or status.beat is None:
        return {"lag_records": status.lag_records or None, "lag_seconds": None}
    return {"lag_records": status.lag_records, "lag_seconds": status.lag_seconds + max(0.0, now - status.beat)}


def progress_of(status: JobStatus) -> str:
    """Role and progress of a version that does not serve, for people; empty for the serving version."""
    if status.role == "serving":
        return ""
    share = ""
    if status.role in ("staged", "promoting") and status.state == "RUNNING":
        share = _share(status)
    return f"{status.role}, {share}" if share else status.role


def standing_of(status: JobStatus) -> str:
    """Role and progress of a version that does not serve, and its state unless it runs or rests as it should, for
    people."""
    if status.state in UP or (status.role == "kept" and status.state == "STOPPED"):
        return progress_of(status)
    return f"{progress_of(status)}, {'not running' if status.state in _IDLE else status.state}"


def unknown_columns_of(status: JobStatus) -> str:
    """Declared columns that its sources do not have now, for people; empty if there are none."""
    sources = status.details.get("sources", {})
    columns = {name: figures.get("unknown_columns") for name, figures in sources.items()}
    lines = [f"{names} of {source}" for source, names in columns.items() if names]
    return f"columns that no schema has: {', '.join(lines)}" if lines else ""


def _share(status: JobStatus) -> str:
    """Share of its sources' records that it has read since its start, for people. A version that was at the end once
    and fell behind is not caught up."""
    if status.caught_up is not None and not status.lag_records:
        return "caught up"
    if not status.lag_records:
        return "reading"
    return f"{100 * status.rows // (status.rows + status.lag_records)} %"


def history(
    journal: Journal, after: int = 0, *, since: float = 0.0, limit: int = 200
) -> tuple[str, Sequence[tuple[int, Transition]]]:
    """The journal's uuid (empty before it exists), and the transitions of all jobs with their ids, oldest first.

    Args:
        journal: of the project.
        after: id of the last transition that the caller has.
        since: epoch seconds; older transitions are left out.
        limit: most transitions to return.
    """
    if not journal.exists():
        return "", ()
    with journal.read() as connection:
        return journal.identity().journal, rows.transitions_after(connection, after, since, limit)
