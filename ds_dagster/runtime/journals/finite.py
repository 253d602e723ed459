"""Finite runs: when a run may begin, and the record of its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Literal

from sqlalchemy import Connection

from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.deciding.spec import upstream
from ds_dagster.runtime.host import Observation
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import RequestRow, StatusRow
from ds_dagster.runtime.journals.told import told


def new_request(project: LoadedProject, query: BoundQuery, by: str, now: float, catch_up: float) -> RequestRow:
    """A request for a run that waits up to ``catch_up`` seconds for the jobs it reads from; the caller writes it."""
    return RequestRow(
        id=0,
        name=query.name,
        state="WAITING",
        requested_by=by,
        requested_at=now,
        upstream=json.dumps(upstream(project, query)),
        waiting_since=now,
        deadline=now + catch_up,
    )


def open_request(connection: Connection, name: str, now: float) -> RequestRow | None:
    """The open run of a query; None without one. A run whose Dagster step has died is closed first."""
    row = rows.open_request(connection, name)
    if row is None or row.state != "STEP" or row.waiting_since >= now:
        return row
    closed = failed(row, error("RUN_ABANDONED", name=name, request=row.id), now)
    rows.save_requests(connection, [closed])
    return None


def advance(request: RequestRow, statuses: Mapping[str, StatusRow], wanted: Collection[str], now: float) -> RequestRow:
    """Advance a waiting request: jobs that have caught up leave its list ``upstream``; when the list is empty, or the
    deadline is over, the request runs.

    The list has sources first. When a job has caught up with the records of ``waiting_since``, the next job has to
    catch up with what the first has written by now, so ``waiting_since`` becomes ``now``. Jobs that are not wanted or
    have failed are not waited for.
    """
    left: list[str] = json.loads(request.upstream)
    since = request.waiting_since
    while left and now < request.deadline:
        status = statuses.get(left[0])
        if left[0] in wanted and (status is None or status.state != "FAILED"):
            if status is None or status.caught_up is None or status.caught_up < since:
                break
            since = now
        left.pop(0)
    if left and now < request.deadline:
        return replace(request, upstream=json.dumps(left), waiting_since=since)
    return replace(request, upstream="[]", waiting_since=since, state="RUNNING", started=now)


def ended(
    request: RequestRow,
    state: Literal["FINISHED", "FAILED"],
    observation: Observation,
    failure: DsError | None,
    now: float,
) -> RequestRow:
    """The request with its outcome."""
    done = replace(request, state=state, finished=now) if failure is None else failed(request, failure, now)
    return replace(done, rows=observation.loaded, batches=observation.progress.batches)


def failed(request: RequestRow, failure: DsError, now: float, redact: Callable[[str], str] = str) -> RequestRow:
    """The request with its failure."""
    columns = told(failure, redact)
    del columns["detail"]  # kept with the job
    return replace(request, state="FAILED", finished=now, **columns)
