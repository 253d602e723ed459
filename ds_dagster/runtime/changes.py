"""Compares a project with what the journal holds of its jobs."""

from __future__ import annotations

from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project import compile_slice
from ds_dagster.runtime.records import JobRow
from ds_dagster.runtime.spec import JobSpec
from ds_dagster.runtime.status import Change
from ds_dagster.settings import Settings


def compare(job: JobRow | None, query: BoundQuery, settings: Settings) -> Change:
    """What applying the query would do to the stored job.

    An old definition is compiled again from its stored slice, so that another version of the package (or of the
    fingerprint's algorithm) does not make every job look changed.
    """
    name, relation = query.name, str(query.sink.name)
    if job is None:
        return Change(name, relation, "new", "it was never started")
    if job.fingerprint == query.fingerprint:
        return Change(name, relation, "unchanged", "the definitions are equal")
    try:
        old = recompiled(JobSpec.from_json(job.spec), settings)
    except DsError as problem:
        rule = f"the stored definition does not compile any more ({problem.condition})"
        return Change(name, relation, "needs_new_checkpoint", rule)
    from ds_dagster.plan.compatibility import verdict

    return verdict(old, query)


def recompiled(spec: JobSpec, settings: Settings) -> BoundQuery:
    """The query of a stored slice, bound by today's code.

    Raises:
        DsError: the slice does not compile (ProjectError when it has mistakes).
    """
    project = compile_slice(spec.slice, settings)
    return project.queries[spec.name]
