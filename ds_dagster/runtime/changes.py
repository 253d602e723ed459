"""Compares a project with what the journal holds of its jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.compatibility import verdict
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.replay import Doubled, doubled
from ds_dagster.project import BrokenRelation, Project, compile_slice, storage_kind
from ds_dagster.runtime.records import JobRow
from ds_dagster.runtime.spec import JobSpec
from ds_dagster.runtime.status import Change, Consent
from ds_dagster.settings import Settings


def compare(job: JobRow | None, query: BoundQuery, settings: Settings) -> Change:
    """What applying the query would do to the stored job.

    An old definition is compiled again from its stored slice, so that another version of the package (or of the
    fingerprint's algorithm) does not make every job look changed.
    """
    name, relation = query.name, query.relations
    if job is None:
        return Change(name, relation, "new", "it was never started")
    if job.fingerprint == query.fingerprint:
        return Change(name, relation, "unchanged", "the definitions are equal")
    try:
        _, old = recompiled(JobSpec.from_json(job.spec), settings)
    except DsError as problem:
        rule = f"the stored definition does not compile any more ({problem.condition})"
        return Change(name, relation, "needs_new_checkpoint", rule)
    found = verdict(old, query)
    return Change(name, relation, found.verdict, found.rule, found.hint)


def doubled_in(project: Project, query: BoundQuery) -> Doubled:
    """The rule of :mod:`ds_dagster.plan.replay` for a query of a project."""

    def keeps_slot(relation: Relation) -> bool:
        return storage_kind(project, relation.store) == "postgres"

    return doubled(query, project.downstream, project.queries, keeps_slot)


def with_doubles(change: Change, project: Project, query: BoundQuery) -> Change:
    """The same change with what a reset would write twice, where it asks for one."""
    if change.verdict not in ("needs_new_checkpoint", "would_lose_data"):
        return change
    found = doubled_in(project, query)
    return replace(change, doubles=found.sinks, readers=found.readers)


def check_consent(project: Project, query: BoundQuery, allow: Collection[Consent]) -> None:
    """Refuse a reset that leaves rows twice, unless that is allowed.

    Raises:
        UserError: RESET_WOULD_DOUBLE.
    """
    found = doubled_in(project, query)
    if found and "duplicates" not in allow:
        sinks, readers = list(found.sinks), list(found.readers)
        raise error("RESET_WOULD_DOUBLE", span=query.sink.span, name=query.name, sinks=sinks, readers=readers)


def refused_statement(project: Project, job: JobRow) -> BrokenRelation | None:
    """The statement of a job that the project refuses now; None where the project has none for it, or a valid one.

    Where a mistake leaves no name to go by (a syntax error), it is any of the file that the job's statement came from.
    """
    if job.name in project.queries or not project.errors:
        return None
    spec = JobSpec.from_json(job.spec)
    names = spec.relation.split(", ")
    named = next((item for item in project.broken if str(item.name) in names), None)
    if named is not None:
        return named
    shown = {found for item in project.broken for found in item.diagnostics}
    file = spec.slice[-1].file
    loose = tuple(d for d in project.errors if d not in shown and d.span and d.span.file == file)
    if not loose or loose[0].span is None:
        return None
    return BrokenRelation(QualifiedName(*names[0].split(".", 2)), "stream", loose[0].span, loose)


def recompiled(spec: JobSpec, settings: Settings) -> tuple[Project, BoundQuery]:
    """The stored slice as a project, and its query bound by today's code.

    Raises:
        UserError: SLICE_INVALID.
    """
    replaced: dict[str, dict[str, str]] = {}
    for store, name, text in spec.store_values:
        replaced.setdefault(store, {})[name] = text
    project = compile_slice(spec.slice, replace(settings, store_values=replaced))
    query = project.queries.get(spec.name)
    if query is None:
        said = "; ".join(f"{d.message} [{d.condition}]" for d in project.errors[:3])
        span = project.errors[0].span if project.errors else None
        raise error("SLICE_INVALID", span=span, name=spec.name, detail=said)
    return project, query
