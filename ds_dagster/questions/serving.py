"""Which definition of a view answers: that of the version whose rows have its name, not one that is still to come."""

from __future__ import annotations

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.settings import Settings


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


def _running(settings: Settings, query: BoundQuery) -> BoundQuery | None:
    """The query that serves; None where it is the given one, or none is known."""
    if settings.journal == "sqlite" and not (settings.state / "journal.db").is_file():
        return None
    from ds_dagster.runtime.deciding.changes import recompiled
    from ds_dagster.runtime.deciding.spec import JobSpec
    from ds_dagster.runtime.journals import rows
    from ds_dagster.runtime.journals.journal import Journal
    from ds_dagster.runtime.processes.environment import engine_environment

    journal = Journal.open(settings, engine_environment(settings.root))
    try:
        if not journal.exists():
            return None
        with journal.read() as connection:
            job = rows.jobs(connection, [query.name]).get(query.name)
    finally:
        journal.close()
    if job is None or job.fingerprint == query.fingerprint:
        return None
    return recompiled(JobSpec.from_json(job.spec), settings)[1]
