"""The status people see: what is wanted, what the engine said, and whether it can still be believed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ds_dagster.errors import DsError, error
from ds_dagster.runtime.identity import Identity
from ds_dagster.runtime.records import JobRow, StatusRow
from ds_dagster.runtime.states import ACTIVE
from ds_dagster.runtime.status import EngineStatus, JobStatus

_ANSWERING = frozenset({"RUNNING", "STARTING", "STOPPING"})


def job_status(job: JobRow, status: StatusRow, engine: EngineStatus, identity: Identity, silent: float) -> JobStatus:
    """Join the two halves of a job.

    What an engine said that is gone or silent is not repeated as a fact: states in which a query exists, or is about
    to, become UNKNOWN. Settled states (FAILED, STOPPED, FINISHED) stay true.
    """
    told: dict[str, Any] = asdict(status)
    told["reported_generation"] = told.pop("generation")
    told["details"] = json.loads(status.details) if status.details else {}
    told["since"] = told["since"] or None
    if engine.state not in _ANSWERING and (status.state in ACTIVE or status.state == "BACKING_OFF"):
        told |= _unheard(engine, silent, state="UNKNOWN")
    elif engine.state == "GONE" and status.state == "ABSENT" and job.desired == "RUNNING" and not status.condition:
        told |= _unheard(engine, silent, state="ABSENT")
    return JobStatus(
        **told,
        job_id=identity.job_id(job.name),
        relation=job.relation,
        desired=job.desired,
        generation=job.generation,
        wanted_fingerprint=job.fingerprint,
    )


def _unheard(engine: EngineStatus, silent: float, state: str) -> dict[str, str]:
    problem: DsError
    if engine.state == "GONE":
        problem = error("ENGINE_NOT_RUNNING")
    else:
        problem = error("ENGINE_SILENT", pid=engine.pid, host=engine.host, seconds=int(silent))
    return {"state": state, "condition": problem.condition, "message": problem.message, "hint": problem.hint}
