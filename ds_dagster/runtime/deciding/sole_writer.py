"""Whether another job already makes a relation of a query that is to start: both would write its rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.journals.records import JobRow


def other_writer(
    project: LoadedProject,
    query: BoundQuery,
    jobs: Mapping[str, JobRow],
    definition_of: Callable[[JobRow], BoundQuery | None],
) -> str:
    """The job that runs without a statement in the project, and makes an entity that the query makes too, as after a
    change of ``'query.name'``, or when queries move into an application; empty without one. A finite query is not
    asked for: its table knows the job that loads it.

    Args:
        project: with the query.
        query: has no job that runs.
        jobs: all jobs of the journal.
        definition_of: the definition that a job runs, None if it no longer compiles.
    """
    if query.is_finite:
        return ""
    ours = _made(query)
    for job in jobs.values():
        if job.desired != "RUNNING" or job.of in project.queries or job.becomes:
            continue
        old = definition_of(job)
        if old is not None and not ours.isdisjoint(_made(old)):
            return job.of
    return ""


def _made(query: BoundQuery) -> frozenset[tuple[str, str]]:
    """(store, entity) of the relations that the query creates: any number of queries may insert into them."""
    return frozenset((part.sink.store, part.sink.entity) for part in query.parts if not part.is_insert)
