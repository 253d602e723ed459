"""The answer to a request about one query, computed from the journal's current rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection

from ds_dagster.errors import error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.deciding import desired
from ds_dagster.runtime.deciding.changes import changes_of, check_consent, over_checkpoint, spec_going_on
from ds_dagster.runtime.deciding.desired import Answer, Asked, Request
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.deciding.versions import check_not_underway
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.finite import open_request
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import JobRow, RequestRow, StatusRow
from ds_dagster.runtime.status import Change, consents


@contextmanager
def compared(
    journal: Journal, project: LoadedProject, queries: Sequence[BoundQuery]
) -> Iterator[tuple[Connection, Mapping[str, Change]]]:
    """Open a write transaction; yield it and the verdict on each query, by name. Queries are compared before the
    transaction begins, since that compiles stored definitions; if their jobs changed meanwhile, they are compared
    again."""
    journal.create()
    while True:
        with journal.read() as connection:
            jobs = rows.jobs(connection)
        changes = {change.name: change for change in changes_of(project, queries, jobs)}
        names = [*changes, *(change.renamed_from for change in changes.values() if change.renamed_from)]
        with journal.write() as connection:
            if rows.jobs(connection, names) == {name: jobs[name] for name in names if name in jobs}:
                yield connection, changes
                return


def run_underway(connection: Connection, query: BoundQuery, request: Request, now: float) -> RequestRow | None:
    """The open run of a query, which another request for a run joins; None without one.

    Raises:
        UserError: RESET_WHILE_LOADING: the request is a reset and the open run is not. A full load is never refused:
            each one starts over.
    """
    row = open_request(connection, query.name, now)
    if row is None or request.action != "reset" or query.refresh == "full":
        return row
    if rows.jobs(connection, [query.name])[query.name].action != "reset":
        raise error("RESET_WHILE_LOADING", span=query.sink.span, name=query.name, request=row.id)
    return row


def answer_of(
    connection: Connection, project: LoadedProject, query: BoundQuery, change: Change, request: Request, now: float
) -> Answer:
    """The answer to a request about a query; writes nothing.

    Args:
        connection: the write transaction in which the caller writes the answer's row.
        project, query: today's definition.
        change: verdict of the comparison with the stored definition.
        request: the request.
        now: epoch seconds.

    Raises:
        UserError: RELATION_HAS_ANOTHER_JOB, PROMOTION_UNDERWAY, RENAME_REFUSED, RENAME_UNDERWAY, JOB_SPEC_NEWER, and
            for a reset those of :func:`ds_dagster.runtime.deciding.changes.check_consent`.
    """
    if change.renamed_from:
        return _renamed(connection, project, query, change, request, now)
    job = rows.jobs(connection, [query.name]).get(query.name)
    if job is None:
        desired.check_name_free(query.name, rows.jobs(connection))
    elif job.is_renamed:
        raise desired.underway(job)
    _check_sole_writer(query, change)
    if job is not None and request.action == "reset":
        check_consent(project, query, request.allow)
    elif job is not None:
        JobSpec.from_json(job.spec).check_readable()
    status = rows.statuses(connection, [query.name]).get(query.name, StatusRow(query.name))
    if request.made_by is not None:
        spec = over_checkpoint(project, query, request.made_by)[0]
    else:
        is_fresh = job is None or request.action == "reset"
        grows = request.action == "restart" and "partial" in request.allow and bool(change.partial)
        change = replace(change, verdict="keeps_checkpoint") if grows else change
        spec = job_spec(project, query) if job is None or is_fresh else spec_going_on(project, query, job, grows=grows)
    answer = desired.answer(Asked(request.action, request.by, now, spec, request.begins), change, job, status)
    if answer.row is not None:
        if job is not None and request.action != "reset":
            _check_taken_over(project, query, job, answer.row)
        check_not_underway(query.name, rows.versions(connection, query.name))
    return answer


def _check_sole_writer(query: BoundQuery, change: Change) -> None:
    if change.written_by:
        named = {"name": query.name, "relation": query.relations, "job": change.written_by}
        raise error("RELATION_HAS_ANOTHER_JOB", span=query.sink.span, **named)


def _check_taken_over(project: LoadedProject, query: BoundQuery, job: JobRow, row: JobRow) -> None:
    """Check again the consent of a reset whose job has finished no batch, when another definition takes its place."""
    if row.begins and row.checkpoint_version != job.checkpoint_version:
        check_consent(project, query, consents(from_now="from_now" in row.begins, empty="empty" in row.begins))


def _renamed(
    connection: Connection, project: LoadedProject, query: BoundQuery, change: Change, request: Request, now: float
) -> Answer:
    former = change.renamed_from
    job = rows.jobs(connection, [former]).get(former)
    if job is None:
        raise error("RENAME_REFUSED", name=query.name, former=former, reason="it was renamed a moment ago")
    desired.check_name_free(query.name, {name: row for name, row in rows.jobs(connection).items() if name != former})
    status = rows.statuses(connection, [former]).get(former, StatusRow(former))
    spec = spec_going_on(project, query, job)
    answer = desired.renamed(Asked(request.action, request.by, now, spec), change, job, status)
    if answer.row is not None:
        check_not_underway(former, rows.versions(connection, former))
    return answer
