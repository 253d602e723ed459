"""Which definition of a view a question uses: the definition of the serving version, not that of a staged version."""

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
"""Cache: state folder and query → mark of the journal when the job was read, and the job."""


def serving_relation(project: LoadedProject, relation: Relation) -> Relation:
    """The relation with the columns of its current rows.

    Args:
        project: with the current definitions.
        relation: a relation of the project.

    Returns:
        For a view or table whose query runs with another definition, the relation of that definition. The project's own
        relation if no query runs, or if the running definition is unknown or no longer compiles.
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
    """Whether another version of a relation's query is getting the public name now, or has just got it."""
    from ds_dagster.runtime.deciding.versions import is_settled
    from ds_dagster.runtime.journals import rows

    query = next(iter(project.queries_of(relation.name)), None)
    try:
        jobs = {} if query is None else _read(project.settings, lambda c: rows.versions(c, query.name)) or {}
    except DsError:
        return False
    return any(is_settled(row) for row in jobs.values())


def _running(settings: Settings, query: BoundQuery) -> BoundQuery | None:
    """The serving query; None if it is the given one, or unknown."""
    job = _job(settings, query.name)
    if job is None or job.fingerprint == query.fingerprint:
        return None
    from ds_dagster.runtime.deciding.changes import recompiled
    from ds_dagster.runtime.deciding.spec import JobSpec

    return recompiled(JobSpec.from_json(job.spec), settings)[1]


def _job(settings: Settings, name: str) -> JobRow | None:
    """The job of a query in the journal, None if there is none; a local journal is read again only after a write."""
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
    """The result of ``look``, which gets a connection to the journal; None if there is no journal."""
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
