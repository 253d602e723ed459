"""Compares a staged version with the serving version, before it takes over: columns and the number of rows. The same
rule holds for `ds promote`, `ds apply` and materializations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.versions import KeepsVersions, VersionsChangelogs
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import POLL_SECONDS, Control
from ds_dagster.runtime.deciding.changes import recompiled
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.deciding.versions import is_near
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.status import JobStatus
from ds_dagster.runtime.versioning import Versions, columns_change

ROW_PERCENT = 10.0
"""Greatest difference of the numbers of rows that needs no consent, in percent of the serving version's rows."""


def check_promotion(
    project: LoadedProject, control: Control, name: str, timeout: float, percent: float = ROW_PERCENT
) -> None:
    """Refuse a staged version that differs from the serving version in what its readers know. If columns differ, the
    refusal comes at once and has everything: the numbers of rows too, if they can be counted now.

    Args:
        project, control, name, timeout, percent: as for :func:`check_rows`.

    Raises:
        UserError: PROMOTION_CHANGES_COLUMNS, and those of :func:`check_rows`.
        DsError: as :func:`check_rows`.
    """
    changes = Versions(control).breaking_changes(name)
    if not changes:
        check_rows(project, control, name, timeout, percent)
        return
    try:
        check_rows(project, control, name, 0.0, percent)
    except DsError as problem:
        if problem.condition == "PROMOTION_GIVEN_UP":
            raise
        is_counted = problem.condition == "PROMOTION_CHANGES_ROWS"
        rows = (
            "{rows} rows instead of {before}".format_map(problem.params) if is_counted else "its rows are not counted"
        )
        changes = (*changes, rows)
    staged = next((row for row in Versions(control).jobs(name).values() if row.role == "staged"), None)
    if staged is not None:
        raise columns_change(name, staged.version, changes)


def check_rows(project: LoadedProject, control: Control, name: str, timeout: float, percent: float) -> None:
    """Wait until the staged version of a query is at the end of its sources, and compare the numbers of rows.

    Args:
        project: its settings are used; the stores are those of the staged definition.
        control: of the project.
        name: of the query. Nothing is checked if it has no staged version, or if its versions have no rows of their
            own.
        timeout: seconds to wait.
        percent: greatest allowed difference, in percent of the serving version's rows.

    Raises:
        UserError: PROMOTION_CHANGES_ROWS; CHANGELOG_TOO_LARGE: its rows are not counted; PROMOTION_GIVEN_UP: the staged
            version has failed. ExternalError: PROMOTION_TIMED_OUT, and those of the store. DsError: the staged
            definition does not compile any more.
    """
    row = wait_caught_up(control, name, timeout)
    if row is None:
        return
    own, query = recompiled(JobSpec.from_json(row.spec), project.settings)  # the files may name another store by now
    for sink in query.sinks:
        before, rows = (_count(own, query, sink, version) for version in (0, row.version))
        if before and abs(rows - before) > before * percent / 100:
            shown = f"{percent:g}"
            raise error(
                "PROMOTION_CHANGES_ROWS", name=name, version=row.version, rows=rows, before=before, percent=shown
            )


def in_order_of_progress(control: Control, names: Sequence[str], timeout: float) -> Iterator[str]:
    """Each query as soon as its staged version need not be waited for: it has caught up, has failed, or has no rows of
    its own. After ``timeout`` seconds the others. So no version waits for a slower one."""
    waiting, end = list(names), control.clock.monotonic() + timeout
    while waiting:
        is_over = control.clock.monotonic() >= end
        ready = [name for name in waiting if is_over or not _is_behind(control, name)]
        for name in ready:
            waiting.remove(name)
            yield name
        if waiting and not ready:
            control.clock.sleep(POLL_SECONDS)


def _is_behind(control: Control, name: str) -> bool:
    row = _staged(control, name)
    if row is None:
        return False
    status = control.status(row.name)
    return not (is_near(status, control.clock.now()) or _has_failed(status))


def wait_caught_up(control: Control, name: str, timeout: float) -> JobRow | None:
    """Wait until the staged version of a query is at the end of its sources; returns its job. None, at once, if there
    is no staged version, or if its versions have no rows of their own.

    Raises:
        UserError: PROMOTION_GIVEN_UP. ExternalError: PROMOTION_TIMED_OUT.
    """
    row = _staged(control, name)
    if row is not None:
        _wait_near(control, name, row.name, row.version, timeout)
    return row


def _staged(control: Control, name: str) -> JobRow | None:
    """The job of a staged version that has rows of its own."""
    row = next((row for row in Versions(control).jobs(name).values() if row.role == "staged"), None)
    return None if row is None or JobSpec.from_json(row.spec).in_turn else row


def _has_failed(status: JobStatus) -> bool:
    return status.state == "FAILED" and status.reported_generation >= status.generation


def _count(project: LoadedProject, query: BoundQuery, sink: Relation, version: int) -> int:
    """Number of rows of a version; 0 for the version that serves."""
    kind, store = kind_of_store(project, sink), project.catalog.store(sink.store)
    if sink.kind == "changelog":
        from ds_dagster.questions.upkeep.folding import count_rows

        assert isinstance(kind, VersionsChangelogs)
        return count_rows(project, sink, kind.version_entity(sink.entity, version) if version else sink.entity)
    assert isinstance(kind, KeepsVersions)
    return kind.count_version(
        kind.write_spec(store, sink, query.refresh), resolver(project.settings, store.name), version
    )


def _wait_near(control: Control, name: str, job: str, version: int, timeout: float) -> None:
    end = control.clock.monotonic() + timeout
    while not is_near(status := control.status(job), control.clock.now()):
        if _has_failed(status):
            fix = status.hint or f"`ds abandon {name}` drops the version"
            raise error("PROMOTION_GIVEN_UP", name=name, version=version, reason=status.message, fix=fix)
        if control.clock.monotonic() > end:
            raise error("PROMOTION_TIMED_OUT", name=name, version=version, state=status.state.lower())
        control.clock.sleep(POLL_SECONDS)
