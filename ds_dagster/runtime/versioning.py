"""Requests about versions of a query, over :class:`ds_dagster.runtime.control.Control`. The engine carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.control import POLL_SECONDS, Control
from ds_dagster.runtime.deciding import versions
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.deciding.changes import definition_of
from ds_dagster.runtime.deciding.desired import transition
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.deciding.version_hints import hint_of_version
from ds_dagster.runtime.deciding.versions import Staged, VersionRequest
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import bump_revision
from ds_dagster.runtime.journals.records import JobRow, Transition
from ds_dagster.runtime.journals.told import failure_of
from ds_dagster.runtime.planning.difference import breaking_changes
from ds_dagster.runtime.status import JobStatus, version_number

Decision = Callable[[Mapping[str, JobRow]], Staged]
OnStatus = Callable[[JobStatus], None]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the queries of one project. ``by``: shown in the history."""

    control: Control
    by: str = ""

    def stage(self, project: LoadedProject, name: str) -> str:
        """Build the project's definition of a query next to the serving version; returns the name of the version's job.
        A staged or kept version that already has this definition is used instead of a new one; it is started again if
        it has failed.

        Raises:
            UserError: JOB_UNKNOWN, STAGE_REFUSED, and those of :func:`ds_dagster.runtime.deciding.versions.stage`.
        """
        query = project.queries.get(name)
        if query is None:
            raise error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, project.queries))
        serving = self.jobs(name).get(name)
        reason = "" if serving is None else why_not_beside(project, query, definition_of(serving, project.settings))
        if reason:
            raise error("STAGE_REFUSED", span=query.sink.span, name=name, reason=reason)
        failed = [s.name for s in self.statuses(name) if s.state == "FAILED" and s.reported_generation >= s.generation]
        request = replace(self._request(job_spec(project, query)), failed=failed)
        return self._decide(name, lambda jobs: versions.stage(name, jobs, request))

    def promote(self, name: str, *, may_break: bool = False) -> str:
        """Request that the staged version of a query takes over as soon as it has caught up; returns the name of its
        job.

        Args:
            name: of the query.
            may_break: allow missing columns, changed types and a changed key.

        Raises:
            UserError: NOTHING_STAGED, PROMOTION_CHANGES_COLUMNS.
        """
        changes = () if may_break else self.breaking_changes(name)

        def decision(jobs: Mapping[str, JobRow]) -> Staged:
            promoted = versions.promote(name, jobs, self._request())
            if changes:
                raise columns_change(name, version_number(promoted.name), changes)
            return promoted

        return self._decide(name, decision)

    def breaking_changes(self, name: str) -> Sequence[str]:
        """How columns, types and the key of the staged version differ from the serving version, in what affects
        readers; none without a staged version."""
        jobs = self.jobs(name)
        staged = next((row for row in jobs.values() if row.role == "staged"), None)
        if staged is None or name not in jobs:
            return ()
        old, new = (definition_of(row, self.control.settings) for row in (jobs[name], staged))
        return () if old is None or new is None else breaking_changes(old, new)

    def rollback(self, name: str, to: int | None = None) -> str:
        """Request that a kept version takes over again; returns the name of its job.

        Args:
            name: of the query.
            to: number of the kept version; None: the one that served last.

        Raises:
            UserError: NOTHING_KEPT, PROMOTION_UNDERWAY.
        """
        history = self.control.transitions(name, kind="desired")

        def decision(jobs: Mapping[str, JobRow]) -> Staged:
            return versions.rollback(name, jobs, self._request(), to or _served_before(jobs, history))

        return self._decide(name, decision)

    def check_rollback(self, name: str, to: int | None = None) -> None:
        """Raise what :meth:`rollback` raises; request nothing."""
        versions.rollback(name, self.jobs(name), self._request(), to)

    def abandon(self, name: str) -> str:
        """Drop the staged version of a query; returns the name of its job.

        Raises:
            UserError: NOTHING_STAGED, PROMOTION_UNDERWAY.
        """
        return self._decide(name, lambda jobs: versions.abandon(name, jobs, self._request()))

    def drop_kept(self) -> Sequence[str]:
        """Drop all kept versions; returns the names of their jobs."""
        if not self.control.journal.exists():
            return ()
        with self.control.journal.write() as connection:
            jobs = rows.jobs(connection)
            dropped = versions.dropped_versions(jobs, self._request())
            for row in dropped:
                self._write(connection, jobs, row)
            bump_revision(connection)
        return tuple(row.name for row in dropped)

    def withdraw(self, name: str) -> bool:
        """Withdraw a request to take over; False if it is over, or cannot be stopped any more."""
        with self.control.journal.write() as connection:
            jobs = rows.versions(connection, name)
            withdrawn = versions.withdraw(name, jobs)
            for row in withdrawn:
                self._write(connection, jobs, row)
            bump_revision(connection)
        return bool(withdrawn)

    def jobs(self, name: str) -> Mapping[str, JobRow]:
        """The versions of a query, by the names of their jobs."""
        if not self.control.journal.exists():
            return {}
        with self.control.journal.read() as connection:
            return rows.versions(connection, name)

    def statuses(self, name: str) -> Sequence[JobStatus]:
        """Statuses of the versions of a query, the serving version first."""
        statuses = (status for status in self.control.statuses() if status.of == name)
        return tuple(sorted(statuses, key=lambda status: (status.name != name, status.version)))

    def wait_served(self, name: str, job: str, timeout: float, on_change: OnStatus | None = None) -> int:
        """Wait until a version serves, and start the engine of its compute pool; returns its number. After the timeout
        the request is withdrawn.

        Args:
            name: of the query.
            job: name of the version's job, as :meth:`promote` returned it; it may serve already.
            timeout: seconds.
            on_change: gets the status of the version that takes over.

        Raises:
            UserError: PROMOTION_GIVEN_UP. ExternalError: PROMOTION_TIMED_OUT; PROMOTION_HELD_UP: public names may have
                changed, so the request cannot be withdrawn. DsError: those of :meth:`Control.ensure_engines`.
        """
        number, end = version_number(job), self.control.clock.monotonic() + timeout
        while True:
            jobs = self.jobs(name)
            if name in jobs and jobs[name].version == number:
                self.control.ensure_engines([name])
                return number
            row = jobs.get(job)
            if row is None or row.role != "promoting":
                raise self._given_up(name, job, number)
            status = self.control.status(job)
            if on_change is not None:
                on_change(status)
            if self.control.clock.monotonic() > end:
                self._give_up_waiting(name, status, int(timeout))
            self.control.clock.sleep(POLL_SECONDS)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _give_up_waiting(self, name: str, status: JobStatus, seconds: int) -> None:
        if self.withdraw(name):
            shown = ": ".join(filter(None, (status.state.lower(), status.message)))
            raise error("PROMOTION_TIMED_OUT", name=name, version=status.version, state=shown)
        if status.condition and status.state == "STOPPED":
            raise error("PROMOTION_HELD_UP", name=name, version=status.version, seconds=seconds, reason=status.message)

    def _request(self, spec: JobSpec | None = None) -> VersionRequest:
        return VersionRequest(self.by, self.control.clock.now(), spec)

    def _decide(self, name: str, decision: Decision) -> str:
        if not self.control.journal.exists():
            raise error("STAGE_NOTHING_SERVES", name=name)
        with self.control.journal.write() as connection:
            jobs = rows.versions(connection, name)
            staged = decision(jobs)
            for row in staged.rows:
                self._write(connection, jobs, row)
            bump_revision(connection)
        return staged.name

    def _write(self, connection: Connection, jobs: Mapping[str, JobRow], row: JobRow) -> None:
        before = jobs.get(row.name)
        is_same_request = before is not None and before.generation == row.generation
        (rows.mark_job if is_same_request else rows.save_job)(connection, row)
        if before is None or not is_same_request or before.role != row.role:
            rows.add_transitions(connection, [transition(row, before)])

    def _given_up(self, name: str, job: str, number: int) -> DsError:
        last = next(iter(self.control.transitions(job, 1, kind="desired")), None)
        failure = failure_of(last.condition, last.parameters) if last else None
        reason = failure.message if failure else "it was abandoned or stopped"
        hint = failure.hint if failure else "run `ds ps` to see its versions"
        row = self.jobs(name).get(job)
        hint = hint if row is None else hint_of_version(hint, row)
        return error("PROMOTION_GIVEN_UP", name=name, version=number, reason=reason, fix=hint)


def columns_change(name: str, version: int, changes: Sequence[str]) -> DsError:
    """The refusal of a version that affects readers. ``changes``: see :meth:`Versions.breaking_changes`."""
    return error("PROMOTION_CHANGES_COLUMNS", name=name, version=version, changes="; ".join(changes))


def _served_before(jobs: Mapping[str, JobRow], history: Iterable[Transition]) -> int | None:
    """Number of the kept version that served last; None if the history does not have it. A rollback that did not take
    over changes the row of its version, so the rows alone do not tell.

    Args:
        jobs: the versions of a query.
        history: of the query, newest first.
    """
    numbers = {f"version {row.version}": row.version for row in jobs.values() if row.role == "kept"}
    return next((numbers[entry.source] for entry in history if entry.source in numbers), None)
