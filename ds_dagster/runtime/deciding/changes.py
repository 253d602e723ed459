"""Compares a project with the jobs in the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.identity.compatibility import verdict
from ds_dagster.plan.identity.grown import added_results, grown_state
from ds_dagster.plan.identity.held import over_state_of
from ds_dagster.plan.identity.replay import Doubled, doubled, effect
from ds_dagster.plan.identity.source_names import kept_names
from ds_dagster.plan.identity.state_order import has_order_of_plan, shows_in_order, shows_otherwise
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import (
    BrokenRelation,
    LoadedProject,
    SliceStatement,
    compile_slice,
    keeps_slot,
    kind_of_store,
)
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.deciding.placing import shown_pool
from ds_dagster.runtime.deciding.renaming import Renaming, former_names, renaming_of, why_not
from ds_dagster.runtime.deciding.sole_writer import other_writer
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.deciding.version_hints import way_beside
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.status import RESTORED, Change, Consent, JobStatus
from ds_dagster.settings import Settings


def compare(job: JobRow | None, query: BoundQuery, settings: Settings) -> Change:
    """What applying the query would do to the stored job; None: there is no job.

    The old definition is compiled again from its stored slice, so that another version of the package, or of the
    fingerprint's algorithm, does not make every job look changed.
    """
    name, relation = query.name, query.relations
    if job is None:
        return Change(name, relation, "new", "it was never started")
    spec = JobSpec.from_json(job.spec)
    if not spec.unread and job.fingerprint == query.fingerprint and query.keeps_state_of(spec.state_signature):
        return Change(name, relation, "unchanged", "the definitions are equal")
    try:
        _, old = recompiled(spec, settings)
    except DsError as problem:
        rule = f"the stored definition does not compile any more ({problem.condition})"
        return Change(name, relation, "needs_new_checkpoint", rule)
    outcome = verdict(old, query)
    return Change(name, relation, outcome.verdict, outcome.rule, outcome.hint)


def definition_of(job: JobRow, settings: Settings) -> BoundQuery | None:
    """The definition that a job runs; None if it no longer compiles, which does not affect the running query."""
    return _defined(JobSpec.from_json(job.spec), settings)


def why_not_over(project: LoadedProject, query: BoundQuery, stored: JobSpec) -> str:
    """Why a query cannot continue with a savepoint's checkpoint, which ``stored`` made; empty if it can."""
    if stored.unread:
        return f"ds-dagster {stored.package_version} made the savepoint, which is newer than this version"
    _, bound = over_checkpoint(project, query, stored)
    if not bound.keeps_state_of(stored.state_signature):
        return "today's statement keeps another state than the savepoint has"
    if stored.ordered_state or stored.fingerprint == query.fingerprint:
        return ""
    old = _defined(stored, project.settings)
    is_alike = old is not None and not shows_otherwise(old, bound)
    return "" if is_alike else "today's statement shows other results, and an earlier version of ds-dagster made it"


def _defined(spec: JobSpec, settings: Settings) -> BoundQuery | None:
    try:
        return recompiled(spec, settings)[1]
    except DsError:
        return None


def changes_of(project: LoadedProject, queries: Iterable[BoundQuery], jobs: Mapping[str, JobRow]) -> tuple[Change, ...]:
    """What applying each of these queries of a project would do."""
    return tuple(_change(project, query, jobs) for query in queries)


def _with_partial(change: Change, project: LoadedProject, query: BoundQuery, job: JobRow | None) -> Change:
    """The change; if it needs a new checkpoint only because of added results, with these results: the present
    checkpoint can have them for the rows since the change."""
    if job is None or change.verdict not in ("needs_new_checkpoint", "would_lose_data"):
        return change
    stored = JobSpec.from_json(job.spec)
    old = _defined(stored, project.settings)
    if old is None or not added_results(old, query):
        return change
    spec, bound = over_checkpoint(project, query, stored, grows=True)
    if spec.state_signature == stored.state_signature:
        return change
    grown = grown_state(old, bound, project.catalog.store_kinds)
    if grown is None or verdict(grown, bound).verdict != "keeps_checkpoint":
        return change
    return replace(change, partial=added_results(old, bound))


def _change(project: LoadedProject, query: BoundQuery, jobs: Mapping[str, JobRow]) -> Change:
    renaming = renaming_of(project, query, jobs)
    if renaming is not None:
        return _renamed(project, renaming, [row.name for row in jobs.values() if row.of == renaming.job.name])
    job = jobs.get(query.name)
    bound = query if job is None else going_on(project, query, job)
    change = with_doubles(_moving(compare(job, bound, project.settings), job, query), project, query, jobs)
    change = _with_partial(change, project, query, job)
    runs = job is not None and job.desired == "RUNNING"
    return change if runs else _of_idle(project, query, change, jobs)


def _of_idle(project: LoadedProject, query: BoundQuery, change: Change, jobs: Mapping[str, JobRow]) -> Change:
    """The change of a query whose job does not run: refused while another job makes its relation."""
    other = other_writer(project, query, jobs, partial(definition_of, settings=project.settings))
    if not other:
        return change
    problem = error("RELATION_HAS_ANOTHER_JOB", name=query.name, relation=query.relations, job=other)
    return replace(change, rule=problem.message, hint=problem.hint, written_by=other)


def _moving(change: Change, job: JobRow | None, query: BoundQuery) -> Change:
    """The change, with the move to another engine if the query's compute pool has changed."""
    if job is None or job.pool == query.pool:
        return change
    moves = f"it moves from {shown_pool(job.pool)} to {shown_pool(query.pool)}"
    if change.verdict != "unchanged":
        return replace(change, rule=f"{change.rule}; {moves}")
    hint = "`restart` stops it in its present engine and continues in the other one, exactly where it stopped"
    return replace(change, verdict="keeps_checkpoint", rule=moves, hint=hint)


def _renamed(project: LoadedProject, renaming: Renaming, versions: Sequence[str]) -> Change:
    query, former = renaming.query, renaming.job.name
    bound = replace(renaming, query=going_on(project, query, renaming.job))
    reason = why_not(project, bound, definition_of(renaming.job, project.settings), versions)
    if reason:
        return Change(query.name, query.relations, "rename_refused", reason, renamed_from=former)
    hint = "`restart` stops it under its former name and continues under the new one, exactly where it stopped"
    rule = f"it continues with the state and the history of {former}"
    return Change(query.name, query.relations, "renamed", rule, hint, renamed_from=former)


def going_on(project: LoadedProject, query: BoundQuery, job: JobRow) -> BoundQuery:
    """The plan of a query that continues with a job's checkpoint, see :func:`spec_going_on`."""
    return over_checkpoint(project, query, JobSpec.from_json(job.spec))[1]


def spec_going_on(project: LoadedProject, query: BoundQuery, job: JobRow, *, grows: bool = False) -> JobSpec:
    """The spec of a query that continues with a job's checkpoint: sources of renamed relations keep their names in the
    checkpoint, and groups keep their results, in whatever order the query shows them. ``grows``: the groups get the
    results that they do not have."""
    return over_checkpoint(project, query, JobSpec.from_json(job.spec), grows=grows)[0]


def over_checkpoint(
    project: LoadedProject, query: BoundQuery, stored: JobSpec, *, grows: bool = False
) -> tuple[JobSpec, BoundQuery]:
    """Spec and plan of a query that continues with a checkpoint, see :func:`spec_going_on`.

    Args:
        project: of the query.
        query: today's definition.
        stored: the definition that made the checkpoint.
        grows: the groups of the checkpoint get the results that they do not have.
    """
    spec = replace(job_spec(project, query), grows=stored.grows)
    is_ordered = stored.ordered_state or (stored.fingerprint == query.fingerprint and shows_in_order(query))
    if is_ordered and not stored.source_names and query.keeps_state_of(stored.state_signature):
        return spec, query
    old = _defined(stored, project.settings)
    names = {} if old is None else kept_names(old, query)
    spec = replace(spec, ordered_state=stored.ordered_state or (old is not None and has_order_of_plan(old)))
    if names or not spec.ordered_state:
        spec = replace(spec, source_names=tuple(sorted(names.items())))
        query = recompiled(spec, project.settings)[1]
    if old is not None and old.state_signature != query.state_signature:
        grown = grown_state(old, query, project.catalog.store_kinds) if grows else None
        bound = over_state_of(grown or old, query)
        if bound is not None:
            names = {**dict(stored.source_names), **names}
            spec = replace(spec, source_names=tuple(sorted(names.items())), grows=spec.grows or grown is not None)
        if bound is not None and bound.state_signature != query.state_signature:
            added = stored.state_added if grown is None else (*stored.state_added, spec.slice)
            state = stored.state_slice or stored.slice
            spec, query = replace(spec, state_slice=state, state_added=added), bound
    return replace(spec, state_signature=query.state_signature), query


def orphans_of(
    project: LoadedProject, jobs: Mapping[str, JobRow], statuses: Iterable[JobStatus]
) -> tuple[JobStatus, ...]:
    """Jobs that run or are wanted, but have no statement in the project, not even one with errors."""
    renamed = former_names(project, jobs)
    lost = (status for status in statuses if status.of not in project.queries and status.of not in renamed)
    live = (status for status in lost if refused_statement(project, jobs[status.name]) is None)
    return tuple(s for s in live if s.desired != "STOPPED" or s.state not in ("STOPPED", "ABSENT", "FINISHED"))


def orphan_changes(orphans: Sequence[JobStatus]) -> tuple[Change, ...]:
    """Orphans as changes: the project no longer has their statements."""
    return tuple(Change(o.name, o.relation, "orphan", "no statement of the project makes it") for o in orphans)


def doubled_in(project: LoadedProject, query: BoundQuery) -> Doubled:
    """Relations that a reset would write twice, by the rule of :mod:`ds_dagster.plan.identity.replay`."""
    return doubled(query, project.downstream, project.queries, partial(keeps_slot, project))


def with_doubles(change: Change, project: LoadedProject, query: BoundQuery, jobs: Mapping[str, JobRow]) -> Change:
    """The change; if it needs a reset, with the relations that a reset would write twice, and whether a version next to
    the running job avoids the reset. ``jobs``: of the journal."""
    if change.verdict not in ("needs_new_checkpoint", "would_lose_data"):
        return change
    job = jobs.get(query.name)
    old = None if job is None else definition_of(job, project.settings)
    doubles, beside = doubled_in(project, query), not why_not_beside(project, query, old)
    way = way_beside(query.name, query.fingerprint, jobs) if beside else ""
    hint = "; ".join(filter(None, (way, change.hint)))
    return replace(change, hint=hint, doubles=doubles.sinks, readers=doubles.readers, beside=beside, way=way)


def check_consent(project: LoadedProject, query: BoundQuery, allow: Collection[Consent]) -> None:
    """Refuse a reset that would write rows twice without permission, or that cannot begin as requested.

    Raises:
        UserError: RESET_WOULD_DOUBLE, RESET_NOT_FROM_NOW, RESET_NOT_EMPTY.
    """
    allow = set(allow) - {"partial"}
    if RESTORED in allow:  # the restore has compared the checkpoint with the sinks
        return
    if "from_now" in allow:
        _check_from_now(project, query)
    if "empty" in allow:
        _check_empty(project, query)
    doubles = doubled_in(project, query)
    if doubles and not allow:
        sinks, readers = list(doubles.sinks), list(doubles.readers) or "nothing in this project"
        raise error("RESET_WOULD_DOUBLE", span=query.sink.span, name=query.name, sinks=sinks, readers=readers)


def _check_from_now(project: LoadedProject, query: BoundQuery) -> None:
    slots = [s.relation.name.name for s in query.scans if keeps_slot(project, s.relation)]
    reason = f"the replication slot of {', '.join(slots)} begins where its reader was" if slots else ""
    reason = "each of its loads ends by itself, and begins where the last one ended" if query.is_finite else reason
    if reason:
        raise error("RESET_NOT_FROM_NOW", span=query.sink.span, name=query.name, reason=reason)


def _check_empty(project: LoadedProject, query: BoundQuery) -> None:
    """Allow only topics that this query alone has created and writes, and that no other query of the project reads."""
    for target in emptied_by(query):
        place = (target.store, target.entity)
        others = [q.name for q in project.queries.values() if q.name != query.name]
        written = [n for n in others if place in _places((*project.queries[n].sinks, *project.queries[n].logs))]
        read = [n for n in others if place in _places(project.queries[n].inputs)]
        able = kind_of_store(project, target).capabilities.empties_entities
        reasons = {
            f"store {target.store} cannot delete the records of a stream at once": not able,
            "its statement declares it, so others may own it": target.declared,
            f"{', '.join(written)} writes it too": bool(written),
            f"{', '.join(read)} has read its rows and would read them again": bool(read),
            "it is a changelog, whose topic is compacted: its rows are updated by key": target.kind == "changelog",
        }
        reason = next((text for text, holds in reasons.items() if holds), "")
        if reason:
            entity = f"{target.store}.{target.entity}"
            raise error("RESET_NOT_EMPTY", span=query.sink.span, name=query.name, entity=entity, reason=reason)


def emptied_by(query: BoundQuery) -> tuple[Relation, ...]:
    """Relations that the consent ``empty`` deletes records of: sinks whose rows a reset does not replace by itself, and
    row logs."""
    sinks = tuple(sink for sink in query.sinks if effect(query, sink) != "replaced")
    return (*sinks, *(log for log in query.logs if log.name not in [sink.name for sink in sinks]))


def _places(relations: Iterable[Relation]) -> set[tuple[str, str]]:
    return {(relation.store, relation.entity) for relation in relations}


def refused_statement(project: LoadedProject, job: JobRow) -> BrokenRelation | None:
    """The statement of a job that the project refuses now; None if it has no statement for the job, or a valid one.

    If a mistake leaves no name to search for (a syntax error), any error in the file of the job's statement counts.
    """
    if job.name in project.queries or not project.errors:
        return None
    spec = JobSpec.from_json(job.spec)
    names = spec.relation.split(", ")
    named = next((item for item in project.broken if str(item.name) in names), None)
    if named is not None:
        return named
    shown = {diagnostic for item in project.broken for diagnostic in item.diagnostics}
    file = spec.slice[-1].file if spec.slice else ""
    loose = tuple(d for d in project.errors if d not in shown and d.span and d.span.file == file)
    if not loose or loose[0].span is None:
        return None
    return BrokenRelation(QualifiedName(*names[0].split(".", 2)), "stream", loose[0].span, loose)


def recompiled(spec: JobSpec, settings: Settings) -> tuple[LoadedProject, BoundQuery]:
    """The stored slice as a project, and its query bound by today's code.

    Raises:
        UserError: SLICE_INVALID, JOB_SPEC_NEWER.
    """
    spec.check_readable()
    project, query = _compiled(spec.slice, spec, settings)
    if not spec.state_slice:
        return project, query
    state: BoundQuery | None = _compiled(spec.state_slice, spec, settings)[1]
    for statements in spec.state_added:
        later, added = _compiled(statements, spec, settings)
        state = None if state is None else grown_state(state, added, later.catalog.store_kinds)
    bound = None if state is None else over_state_of(state, query)
    if bound is None:
        detail = "it no longer fits the groups of its checkpoint"
        raise error("SLICE_INVALID", span=query.sink.span, name=spec.name, detail=detail)
    return project, bound


def _compiled(
    statements: Sequence[SliceStatement], spec: JobSpec, settings: Settings
) -> tuple[LoadedProject, BoundQuery]:
    """The single query of some statements. In statements of a state, the query may have a former name."""
    replaced: dict[str, dict[str, str]] = {}
    for store, name, text in spec.store_values:
        replaced.setdefault(store, {})[name] = text
    of_job = replace(settings, source_names=dict(spec.source_names), ordered_state=spec.ordered_state)
    project = compile_slice(statements, replace(of_job, store_values=replaced))
    name = spec.name if statements is spec.slice else next(iter(project.queries), "")
    query = project.queries.get(name)
    if query is None:
        problems = "; ".join(f"{d.message} [{d.condition}]" for d in project.errors[:3])
        span = project.errors[0].span if project.errors else None
        raise error("SLICE_INVALID", span=span, name=spec.name, detail=problems)
    return project, query
