"""Which definition of a view answers: that of the version whose rows have its name, not one that is still to come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.settings import Settings

if TYPE_CHECKING:
    from ds_dagster.runtime.journals.records import JobRow

T = TypeVar("T")
_JOBS: dict[tuple[Path, str], tuple[object, JobRow | None]] = {}
"""State folder and query → the journal's mark when its job was read, and the job."""


def serving_relation(project: LoadedProject, relation: Relation) -> Relation:
    """The relation as its rows are now.

    Args:
        project: as it is written.
        relation: one of it. A view whose query runs with another definition has the columns of that one.

    Returns:
        The project's own where nothing runs, and where what runs is not known or does not compile any more.
    """
    if relation.kind not in ("materialized_view", "table"):
        return relation
    query = next(iter(project.queries_of(relation.name)), None)
    try:
        running = None if query is None else _running(project.settings, query)
    except DsError:
        return relation
    sinks = () if running is None else running.sinks
    return next((sink for sink in sinks if sink.name == relation.name and sink.store == relation.store), relation)


def is_taken_over(project: LoadedProject, relation: Relation) -> bool:
    """Whether another version of a relation's query is about to get the public name, or has it since a moment."""
    from ds_dagster.runtime.deciding.versions import is_settled
    from ds_dagster.runtime.journals import rows

    query = next(iter(project.queries_of(relation.name)), None)
    try:
        jobs = {} if query is None else _read(project.settings, lambda c: rows.versions(c, query.name)) or {}
    except DsError:
        return False
    return any(is_settled(row) for row in jobs.values())


def _running(settings: Settings, query: BoundQuery) -> BoundQuery | None:
    """The query that serves; None where it is the given one, or none is known."""
    job = _job(settings, query.name)
    if job is None or job.fingerprint == query.fingerprint:
        return None
    from ds_dagster.runtime.deciding.changes import recompiled
    from ds_dagster.runtime.deciding.spec import JobSpec

    return recompiled(JobSpec.from_json(job.spec), settings)[1]


def _job(settings: Settings, name: str) -> JobRow | None:
    """What the journal wants of a query; a local journal is read again only after a write."""
    is_local = settings.journal == "sqlite"
    if is_local and not (settings.state / "journal.db").is_file():
        return None
    from ds_dagster.runtime.journals.journal import mark_of

    mark = mark_of(settings.state / "journal.db") if is_local else None
    place = (settings.state, name)
    if mark is None or _JOBS.get(place, (None, None))[0] != mark:
        from ds_dagster.runtime.journals import rows

        _JOBS[place] = (mark, _read(settings, lambda connection: rows.jobs(connection, [name]).get(name)))
    return _JOBS[place][1]


def _read(settings: Settings, look: Callable[[Any], T | None]) -> T | None:
    """What the journal says; None where there is none. ``look`` gets a connection."""
    from ds_dagster.runtime.journals.journal import Journal
    from ds_dagster.runtime.processes.environment import engine_environment

    journal = Journal.open(settings, engine_environment(settings.root))
    try:
        if not journal.exists():
            return None
        with journal.read() as connection:
            return look(connection)
    finally:
        journal.close()
