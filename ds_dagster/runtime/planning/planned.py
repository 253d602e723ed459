"""One line of ``ds plan``: a change with the facts that a reviewer needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.errors import DsError
from ds_dagster.plan.identity.replay import behind
from ds_dagster.plan.nodes.scan import start_text
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.definition_text import select_text
from ds_dagster.project.load import LoadedProject, slice_of
from ds_dagster.runtime.deciding.changes import changes_of, orphan_changes, orphans_of, recompiled
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.planning.difference import column_changes, sql_diff
from ds_dagster.runtime.planning.effort import Effort
from ds_dagster.runtime.planning.running import Running
from ds_dagster.runtime.status import UP, Change, JobState, JobStatus
from ds_dagster.runtime.views import standing_of, unknown_columns_of


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What ``ds apply`` would do with one query.

    Attributes:
        change: the verdict, and the rule behind it.
        state: of its job; None if it has no job yet.
        waits: whether ``apply`` would start, change, refuse or prune something. False for finite queries: a scheduler
            starts them.
        because: the rule, and the state of a job that should run but does not.
        sql: lines of a unified diff of its statement and the declarations that it reads.
        columns: how the columns and the key of its relations change.
        creates: entities (``store.entity``) that its first start creates if they do not exist.
        downstream: queries of the project that read its output, direct readers first.
        renamed_from: the job that it continues, or an orphan that runs the same query under another name; empty
            without one.
        reads_again: sources that a new version or a reset reads: ``store.entity from POSITION``.
        staged: the staged version and its progress, for people; empty without one.
        effort: findings of the stores; None if they were not requested.
    """

    change: Change
    state: JobState | None
    waits: bool
    because: str
    sql: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    renamed_from: str = ""
    reads_again: tuple[str, ...] = ()
    staged: str = ""
    effort: Effort | None = None


def planned_changes(
    project: LoadedProject, running: Running, names: Sequence[str] | None = None
) -> tuple[PlannedChange, ...]:
    """What applying a project would do, by query in the project's order.

    Args:
        project: the loaded project; statements with errors have no line.
        running: the jobs of the journal or of a state file.
        names: of queries; None: all queries, and the orphans.
    """
    queries = [query for name, query in project.queries.items() if names is None or name in names]
    orphans = orphans_of(project, running.jobs, running.statuses)
    bodies = {select_text(_spec(running.jobs[orphan.name]).slice): orphan.name for orphan in orphans}
    renamed = {body: name for body, name in bodies.items() if body}
    lines = [
        _planned(project, query, change, running, renamed)
        for query, change in zip(queries, changes_of(project, queries, running.jobs), strict=True)
    ]
    if names is None:
        lines += [_orphan(change, running) for change in orphan_changes(orphans)]
    return tuple(lines)


def unknown_changes(project: LoadedProject, names: Sequence[str] | None = None) -> tuple[PlannedChange, ...]:
    """The plan if the journal does not answer: the queries, the entities that they create, and their readers.

    Args:
        project: the loaded project; statements with errors have no line.
        names: of queries; None: all queries.
    """
    queries = [query for name, query in project.queries.items() if names is None or name in names]
    rule = "the journal does not answer"
    return tuple(
        PlannedChange(
            Change(query.name, query.relations, "unknown", rule),
            state=None,
            waits=not query.is_finite,
            because=rule,
            creates=_creates(query),
            downstream=_downstream(project, query),
        )
        for query in queries
    )


def _planned(
    project: LoadedProject, query: BoundQuery, change: Change, running: Running, renamed: Mapping[str, str]
) -> PlannedChange:
    former = change.renamed_from or query.name
    job, status = running.jobs.get(former), running.status(former)
    is_equal = change.verdict == "unchanged"
    before = () if job is None or is_equal else _spec(job).slice
    after = () if is_equal else slice_of(project, query)
    renamed_from = change.renamed_from or (renamed.get(select_text(after), "") if job is None else "")
    return PlannedChange(
        change=change,
        state=None if status is None else status.state,
        waits=not query.is_finite and not (is_equal and _is_up(status)),
        because=_because(query, change, status, "" if change.renamed_from else renamed_from),
        sql=sql_diff(before, after) if before or job is None else (),
        columns=() if is_equal or job is None else tuple(_columns(project, _spec(job), query)),
        creates=_creates(query) if job is None else (),
        downstream=_downstream(project, query),
        renamed_from=renamed_from,
        reads_again=_reads_again(query) if change.verdict in ("needs_new_checkpoint", "would_lose_data") else (),
        staged=_staged(query, running, is_equal),
    )


def _downstream(project: LoadedProject, query: BoundQuery) -> tuple[str, ...]:
    return behind([sink.name for sink in query.sinks], query.name, project.downstream, project.queries)


def _reads_again(query: BoundQuery) -> tuple[str, ...]:
    scans = query.scans
    places = (f"{s.relation.store}.{s.relation.entity} from {start_text(s)}" for s in scans)
    return tuple(dict.fromkeys(places))


def _staged(query: BoundQuery, running: Running, is_unchanged: bool) -> str:
    """The staged version, its progress, and whether it has the planned definition, for people; empty without one. For
    an unchanged query also what to do with the version: the hint of a changed query says that."""
    status = next((s for s in running.statuses if s.of == query.name and s.role in ("staged", "promoting")), None)
    if status is None:
        return ""
    text = f"version {status.version} is {standing_of(status)}"
    text += f" ({status.hint})" if status.state == "FAILED" and status.hint else ""
    if running.jobs[status.name].fingerprint == query.fingerprint:
        return text
    way = f": `ds abandon {query.name}` drops it, `ds promote {query.name}` lets it take over"
    return f"{text}, of another definition" + (way if is_unchanged else "")


def _orphan(change: Change, running: Running) -> PlannedChange:
    status = running.status(change.name)
    state = None if status is None else status.state
    sql = sql_diff(_spec(running.jobs[change.name]).slice, ())
    return PlannedChange(change, state, waits=True, because=change.rule, sql=sql)


def _spec(job: JobRow) -> JobSpec:
    return JobSpec.from_json(job.spec)


def _is_up(status: JobStatus | None) -> bool:
    return status is not None and status.desired == "RUNNING" and status.state in UP


def _because(query: BoundQuery, change: Change, status: JobStatus | None, renamed_from: str) -> str:
    if change.verdict == "unchanged" and status is not None and not query.is_finite and not _is_up(status):
        reason = f" ({status.condition})" if status.condition else ""
        return f"{change.rule}; it is {status.state}{reason}: {_way(status)}"
    if (
        change.verdict == "unchanged"
        and status is not None
        and _is_up(status)
        and (unknown := unknown_columns_of(status))
    ):
        return f"{change.rule}; {unknown}"
    if renamed_from and not change.written_by:
        same = f"{renamed_from}, which has no statement any more, runs the same query"
        return f"{change.rule}; {same}: write `-- @renamed_from {renamed_from}` above it to continue that job"
    return change.rule


def _way(status: JobStatus) -> str:
    """How a query that does not run gets to run."""
    if status.state == "FAILED" and status.hint:
        return f"{status.hint}; `ds apply` only starts it again"
    if status.state == "BACKING_OFF" and status.desired == "RUNNING":
        return "the engine retries it; `ds apply` does so at once"
    return "`ds apply` starts it"


def _columns(project: LoadedProject, spec: JobSpec, query: BoundQuery) -> Iterator[str]:
    """Changes of columns; none if the stored definition no longer compiles, which the change's rule reports."""
    try:
        _, old = recompiled(spec, project.settings)
    except DsError:
        return
    yield from column_changes(old, query)


def _creates(query: BoundQuery) -> tuple[str, ...]:
    targets = (*(sink for sink in query.sinks if not sink.declared), *query.logs)
    return tuple(dict.fromkeys(f"{target.store}.{target.entity}" for target in targets))
