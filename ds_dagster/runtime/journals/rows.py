"""Reads and writes the journal's tables: all SQL statements are here, each runs in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from ds_dagster.errors import error
from ds_dagster.runtime.journals import schema
from ds_dagster.runtime.journals.journal import database_now, is_on_server
from ds_dagster.runtime.journals.records import (
    EngineRow,
    JobRow,
    RequestRow,
    StatusRow,
    Transition,
    lasting_name,
    record,
    values,
)
from ds_dagster.runtime.processes.liveness import Heard
from ds_dagster.runtime.status import FiniteResult

_OPEN = ("WAITING", "RUNNING", "STEP")
ENDED: Mapping[str, Literal["FINISHED", "FAILED", "STOPPED"]] = {
    "FINISHED": "FINISHED",
    "FAILED": "FAILED",
    "STOPPED": "STOPPED",
}
"""States of requests that have ended."""
RENAMED_FROM = "renamed from "
"""Begin of the reason of a transition that gave a job its name; its former name follows."""


def jobs(connection: Connection, names: Sequence[str] | None = None) -> Mapping[str, JobRow]:
    """Desired state of the named jobs, or of all, by name."""
    query = select(schema.JOBS)
    if names is not None:
        query = query.where(schema.JOBS.c.name.in_(list(names)))
    return {row.name: record(JobRow, row) for row in connection.execute(query)}


def statuses(connection: Connection, names: Sequence[str] | None = None) -> Mapping[str, StatusRow]:
    """Observed state of the named jobs, or of all, by name."""
    query = select(schema.STATUS)
    if names is not None:
        query = query.where(schema.STATUS.c.name.in_(list(names)))
    return {row.name: record(StatusRow, row) for row in connection.execute(query)}


def save_job(connection: Connection, row: JobRow) -> JobRow | None:
    """Write desired state by compare-and-set: its generation must be the stored one plus one. Returns the former row;
    None for a new job.

    Raises:
        InternalError: the generation moved (impossible inside one write transaction).
    """
    before = jobs(connection, [row.name]).get(row.name)
    if before is None:
        connection.execute(insert(schema.JOBS).values(values(_with_own_identity(connection, row))))
        return None
    matches = (schema.JOBS.c.name == row.name) & (schema.JOBS.c.generation == row.generation - 1)
    if connection.execute(update(schema.JOBS).where(matches).values(values(row))).rowcount != 1:
        raise error(
            "INTERNAL", where=f"desired state of {row.name}: generation {before.generation}, not {row.generation - 1}"
        )
    return before


def _with_own_identity(connection: Connection, row: JobRow) -> JobRow:
    """A new job never gets the checkpoint and the ledger of another job that once had its name."""
    column = schema.JOBS.c
    names = connection.execute(select(column.name, column.query, column.version, column.identity))
    taken = {lasting_name(*fields) for fields in names}
    wanted, number = row.writes_as, 1
    while (identity := wanted if number == 1 else f"{wanted}~{number}") in taken:
        number += 1
    return row if identity == wanted else replace(row, identity=identity)


def mark_job(connection: Connection, row: JobRow) -> None:
    """Change a job's row but not its generation, so that its query keeps running.

    Raises:
        InternalError: the generation moved (impossible inside one write transaction).
    """
    matches = (schema.JOBS.c.name == row.name) & (schema.JOBS.c.generation == row.generation)
    if connection.execute(update(schema.JOBS).where(matches).values(values(row))).rowcount != 1:
        raise error("INTERNAL", where=f"desired state of {row.name}: its generation is not {row.generation}")


def insert_jobs(connection: Connection, added: Iterable[JobRow]) -> None:
    """Write rows of jobs that are not in the journal."""
    connection.execute(insert(schema.JOBS), [values(row) for row in added])


def delete_job(connection: Connection, name: str) -> None:
    """Delete a job and its status; its history stays."""
    for table in (schema.JOBS, schema.STATUS):
        connection.execute(delete(table).where(table.c.name == name))


def former_names(connection: Connection, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Job → all names that it had before, from its history; jobs that were never renamed are left out."""
    table = schema.TRANSITIONS
    renamed = table.c.name.in_(list(names)) & table.c.reason.startswith(RENAMED_FROM, autoescape=True)
    former: dict[str, set[str]] = {}
    for row in connection.execute(select(table.c.name, table.c.reason).where(renamed)):
        former.setdefault(row.name, set()).add(row.reason.removeprefix(RENAMED_FROM))
    return {name: frozenset(before) for name, before in former.items()}


def rename_history(connection: Connection, former: str, name: str) -> None:
    """Move history and requests of a job to its new name."""
    for table in (schema.TRANSITIONS, schema.REQUESTS):
        connection.execute(update(table).where(table.c.name == former).values(name=name))


def versions(connection: Connection, query: str) -> Mapping[str, JobRow]:
    """All versions of a query, by the names of their jobs."""
    matches = (schema.JOBS.c.name == query) | (schema.JOBS.c.query == query)
    return {row.name: record(JobRow, row) for row in connection.execute(select(schema.JOBS).where(matches))}


def save_statuses(connection: Connection, changed: Iterable[StatusRow], *, writer: str, pool: str = "") -> None:
    """Replace the status rows of these jobs. ``writer``: the token of the engine's lease, or ``schema.STEP``; ``pool``:
    of that engine."""
    rows = [{**values(status), "writer": writer, "pool": pool} for status in changed]
    if rows:
        names = [row["name"] for row in rows]
        connection.execute(delete(schema.STATUS).where(schema.STATUS.c.name.in_(names)))
        connection.execute(insert(schema.STATUS), rows)


def add_transitions(connection: Connection, added: Sequence[Transition]) -> None:
    """Append to the history."""
    if added:
        connection.execute(insert(schema.TRANSITIONS), [values(transition) for transition in added])


def transitions(connection: Connection, name: str, limit: int, kind: str = "") -> Sequence[Transition]:
    """History of a job, newest first; with ``kind`` only entries of that kind."""
    table = schema.TRANSITIONS
    query = select(table).where(table.c.name == name).order_by(table.c.id.desc()).limit(limit)
    query = query.where(table.c.kind == kind) if kind else query
    return tuple(record(Transition, row) for row in connection.execute(query))


def transitions_after(connection: Connection, after: int, since: float, limit: int) -> Sequence[tuple[int, Transition]]:
    """History of all jobs with ids above ``after`` and not older than ``since`` (epoch seconds), oldest first."""
    table = schema.TRANSITIONS
    query = select(table).where(table.c.id > after, table.c.at >= since).order_by(table.c.id).limit(limit)
    return tuple((row.id, record(Transition, row)) for row in connection.execute(query))


def shapes(connection: Connection) -> Mapping[str, Mapping[str, Transition]]:
    """Job → source → the last transition of the source's shape in the job's history."""
    table = schema.TRANSITIONS
    last: dict[str, dict[str, Transition]] = {}
    for row in connection.execute(select(table).where(table.c.kind == "shape").order_by(table.c.id)):
        last.setdefault(row.name, {})[row.actor] = record(Transition, row)
    return last


# -- finite runs -----------------------------------------------------------------------------------------------------


def add_request(connection: Connection, row: RequestRow) -> int:
    """Insert a request; returns its id."""
    columns = {name: value for name, value in values(row).items() if name != "id"}
    key = connection.execute(insert(schema.REQUESTS).values(columns)).inserted_primary_key
    assert key is not None
    return int(key[0])


def request(connection: Connection, request_id: int) -> RequestRow | None:
    """One request."""
    table = schema.REQUESTS
    row = connection.execute(select(table).where(table.c.id == request_id)).one_or_none()
    return None if row is None else record(RequestRow, row)


def open_request(connection: Connection, name: str) -> RequestRow | None:
    """The open request of a job."""
    return open_requests(connection, [name]).get(name)


def open_requests(connection: Connection, names: Sequence[str] | None = None) -> Mapping[str, RequestRow]:
    """Open requests, by job."""
    table = schema.REQUESTS
    query = select(table).where(table.c.state.in_(_OPEN)).order_by(table.c.id)
    if names is not None:
        query = query.where(table.c.name.in_(list(names)))
    return {row.name: record(RequestRow, row) for row in connection.execute(query)}


def held_by_steps(connection: Connection, now: float) -> frozenset[str]:
    """Jobs whose open run is held by a living Dagster step."""
    requests = open_requests(connection).values()
    return frozenset(row.name for row in requests if row.state == "STEP" and row.waiting_since >= now)


def requests_of(connection: Connection, name: str, limit: int) -> Sequence[RequestRow]:
    """Requests of one job, newest first."""
    table = schema.REQUESTS
    query = select(table).where(table.c.name == name).order_by(table.c.id.desc()).limit(limit)
    return tuple(record(RequestRow, row) for row in connection.execute(query))


def save_requests(connection: Connection, changed: Iterable[RequestRow]) -> None:
    """Update requests that are still open; a request that was cancelled meanwhile stays cancelled."""
    table = schema.REQUESTS
    for row in changed:
        still_open = (table.c.id == row.id) & table.c.state.in_(_OPEN)
        connection.execute(update(table).where(still_open).values(values(row)))


def close_request(connection: Connection, request_id: int, now: float) -> bool:
    """Cancel an open request; False if it has ended."""
    return _cancel(connection, schema.REQUESTS.c.id == request_id, now)


def close_requests(connection: Connection, name: str, now: float) -> bool:
    """Cancel the open request of a job; False without one."""
    return _cancel(connection, schema.REQUESTS.c.name == name, now)


def result(row: RequestRow) -> FiniteResult | None:
    """The outcome of a request, None while it is open."""
    if row.state not in ENDED:
        return None
    return FiniteResult(
        name=row.name,
        request=row.id,
        state=ENDED[row.state],
        rows=row.rows,
        batches=row.batches,
        seconds=max(0.0, (row.finished or row.requested_at) - (row.started or row.requested_at)),
        condition=row.condition,
        message=row.message,
        hint=row.hint,
    )


def _cancel(connection: Connection, which: ColumnElement[bool], now: float) -> bool:
    table: Table = schema.REQUESTS
    still_open = table.c.state.in_(_OPEN) & which
    return connection.execute(update(table).where(still_open).values(state="STOPPED", finished=now)).rowcount > 0


# -- the lease -------------------------------------------------------------------------------------------------------


def engine(connection: Connection, name: str) -> EngineRow | None:
    """The lease of an engine; None if it never ran."""
    row = connection.execute(select(schema.ENGINES).where(schema.ENGINES.c.name == name)).one_or_none()
    return None if row is None else record(EngineRow, row)


def engine_names(connection: Connection) -> Sequence[str]:
    """Names of all engines that ever had a lease."""
    return tuple(connection.execute(select(schema.ENGINES.c.name).order_by(schema.ENGINES.c.name)).scalars())


def heard(connection: Connection, name: str, now: float) -> Heard:
    """The engine's row and the age of its last heartbeat, by the server's clock if the journal is on a server."""
    row = engine(connection, name)
    age = 0.0 if row is None else database_now(connection, now) - row.beat
    return Heard(row, age, is_on_server(connection))


def take_lease(connection: Connection, row: EngineRow) -> None:
    """Replace the holder of the lease; the caller has made sure that the former holder is dead."""
    stamped = replace(row, beat=database_now(connection, row.beat))
    connection.execute(delete(schema.ENGINES).where(schema.ENGINES.c.name == row.name))
    connection.execute(insert(schema.ENGINES).values(values(stamped)))


def end_lease(connection: Connection, row: EngineRow) -> bool:
    """End the lease of an engine that is gone, so that it can no longer write; False if the lease has another holder
    now."""
    table = schema.ENGINES
    its = (table.c.name == row.name) & (table.c.token == row.token)
    ended = {"state": "GONE", "token": uuid.uuid4().hex}
    return connection.execute(update(table).where(its).values(ended)).rowcount == 1


def beat(connection: Connection, row: EngineRow) -> bool:
    """Renew the lease; False if the lease has another holder now."""
    table = schema.ENGINES
    ours = (table.c.name == row.name) & (table.c.token == row.token)
    stamped = replace(row, beat=database_now(connection, row.beat))
    return connection.execute(update(table).where(ours).values(values(stamped))).rowcount == 1
