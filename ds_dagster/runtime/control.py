"""The one interface to request and read jobs; Dagster, the command line and tests use only this.

Everything goes through the journal: a request is a short write, waiting is reading. There is no Spark and no connection
to the engine here, so either side may die at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import Connection

from ds_dagster.clock import Clock, SystemClock
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.asking import answer_of, compared, run_underway
from ds_dagster.runtime.checkpoints import Checkpoints, OldCheckpoint
from ds_dagster.runtime.deciding import desired
from ds_dagster.runtime.deciding.changes import changes_of, orphan_changes, orphans_of
from ds_dagster.runtime.deciding.desired import Answer, Request
from ds_dagster.runtime.deciding.placing import pool_of
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.deciding.versions import is_halted
from ds_dagster.runtime.engines import Engines
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.finite import new_request, open_request
from ds_dagster.runtime.journals.journal import Journal, bump_revision
from ds_dagster.runtime.journals.records import JobRow, StatusRow, Transition
from ds_dagster.runtime.journals.states import ACTIVE, PENDING, SETTLED
from ds_dagster.runtime.launchers.base import Launcher
from ds_dagster.runtime.launchers.external import ExternalLauncher
from ds_dagster.runtime.launchers.local import LocalLauncher
from ds_dagster.runtime.planning.running import Running
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.runtime.processes.liveness import DEFAULT_ENGINE
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import Action, Change, Consent, EngineStatus, Ensured, FiniteResult, JobStatus
from ds_dagster.runtime.views import job_status, not_running
from ds_dagster.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.1
CATCH_UP_SECONDS = 60.0
"""How long a finite run waits for the jobs it reads from."""

ENGINE_GRACE_SECONDS = 60.0
"""How long a waiting call accepts that no engine runs."""

OnChange = Callable[[JobStatus], None]


@dataclass(slots=True)
class Control:
    """Desired and observed state of one project's jobs. Create it with :meth:`open`, once per reader, and keep it:
    it measures how long engines are silent. ``fleet``: the project's engines."""

    settings: Settings
    journal: Journal
    clock: Clock
    launcher: Launcher
    places: Places
    fleet: Engines = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = Engines(self.journal, self.clock, self.launcher, self.places)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        clock: Clock | None = None,
        launcher: Launcher | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Control:
        """Open a project's control. Touches no file before the first read or write.

        Args:
            settings: of the project.
            clock, launcher: default: the machine's clock and the launcher of the settings.
            environment: where ``${NAME}`` in the journal's URL is looked up; default: process and ``.env``.

        Raises:
            UserError: JOURNAL_URL_INVALID, JOURNAL_NETWORK_FILE_SYSTEM, ENVIRONMENT_REFERENCE_MISSING.
        """
        clock = clock or SystemClock()
        variables = engine_environment(settings.root) if environment is None else environment
        if launcher is None:
            local = settings.engine.launcher == "local"
            launcher = LocalLauncher(settings, clock) if local else ExternalLauncher(clock)
        return cls(settings, Journal.open(settings, variables), clock, launcher, Places.of(settings))

    # -- seeing ------------------------------------------------------------------------------------------------------

    def engines(self) -> Sequence[EngineStatus]:
        """The project's own engine, and engines of compute pools that live or are needed; at least one entry."""
        return self.fleet.statuses()

    def statuses(self, names: Sequence[str] | None = None) -> Sequence[JobStatus]:
        """Statuses of the named jobs, in that order (ABSENT if the journal does not have the job); without ``names`` of
        all jobs, sorted by name."""
        if not self.journal.exists():
            return tuple(self._unknown(name) for name in names or ())
        with self.journal.read() as connection:
            jobs = rows.jobs(connection)
            observed = rows.statuses(connection)
            held = rows.held_by_steps(connection, self.clock.now())
        pools = {name: pool_of(job, jobs, observed.get(name)) for name, job in jobs.items()}
        surroundings = {pool: self.fleet.surroundings(pool, held) for pool in sorted({"", *pools.values()})}
        return tuple(
            job_status(jobs[name], observed.get(name), surroundings[pools[name]], self.log_place(name))
            if name in jobs
            else self._unknown(name)
            for name in (sorted(jobs) if names is None else names)
        )

    def status(self, name: str) -> JobStatus:
        """One job."""
        return self.statuses([name])[0]

    def changes(self, project: LoadedProject, names: Sequence[str] | None = None) -> Sequence[Change]:
        """What :meth:`ensure` would do with each query, in the project's order; without ``names`` orphans follow."""
        changes = changes_of(project, self._queries(project, names), self._jobs())
        return changes if names is not None else (*changes, *orphan_changes(self.orphans(project)))

    def orphans(self, project: LoadedProject) -> Sequence[JobStatus]:
        """Jobs that run or are wanted, but have no statement in the project, not even one with errors."""
        return orphans_of(project, self._jobs(), self.statuses())

    def running(self) -> Running:
        """All jobs of the journal with their statuses, to compare a project with, here or on another machine."""
        return Running(self._jobs(), self.statuses(), self.clock.now())

    def transitions(self, name: str, limit: int = 100, *, kind: str = "") -> Sequence[Transition]:
        """History of a job, newest first; with ``kind`` (``desired``, ``state``, …) only entries of that kind."""
        if not self.journal.exists():
            return ()
        with self.journal.read() as connection:
            return rows.transitions(connection, name, limit, kind)

    def log_path(self, name: str) -> Path:
        """The job's log file (it may not exist yet)."""
        return self.places.job_log(name)

    def log_place(self, name: str = "", *, engine: str = DEFAULT_ENGINE) -> str:
        """Address of the log of a job (``name``) or of an engine: below ``log_url`` of the settings, else its path."""
        path = self.log_path(name) if name else self.fleet.places_of(engine).engine_log
        base = self.settings.engine.log_url.rstrip("/")
        return f"{base}/{quote(str(path.relative_to(self.places.logs)))}" if base else str(path)

    def requests(self, name: str, limit: int = 20) -> Sequence[FiniteResult | None]:
        """Outcomes of a finite query's runs, newest first; None for an open run."""
        if not self.journal.exists():
            return ()
        with self.journal.read() as connection:
            return tuple(rows.result(row) for row in rows.requests_of(connection, name, limit))

    # -- asking ------------------------------------------------------------------------------------------------------

    def ensure(
        self,
        project: LoadedProject,
        names: Sequence[str],
        action: Action = "ensure",
        requested_by: str = "",
        *,
        allow: Collection[Consent] = (),
        made_by: JobSpec | None = None,
    ) -> Sequence[Ensured]:
        """Write the desired state of some queries; the engine acts on it. All or nothing: a refusal writes nothing. For
        partial success call it once per name.

        Args:
            project: loaded project.
            names: query names.
            action: ``ensure``: run with today's definition; adopt an unchanged running job, refuse a changed one.
                ``restart``: stop and start, with today's definition if the checkpoint can be kept. ``reset``: start
                with a new checkpoint version. ``stop``: see :meth:`stop`.
            requested_by: shown in the history.
            allow: permitted effects of a reset on the sinks; none by default.
            made_by: definition that made the checkpoint which already is at the place of the new version; None without.

        Raises:
            UserError: DEFINITION_CHANGED (its hint says restart or reset), JOB_UNKNOWN, JOB_IS_FINITE, and those of
                :func:`ds_dagster.runtime.asking.answer_of`.
            DsError: JOURNAL_….
        """
        if action == "stop":
            return self.stop(names, requested_by)
        queries = self._queries(project, names)
        for query in queries:
            if query.is_finite and action != "reset":
                raise error("JOB_IS_FINITE", span=query.sink.span, name=query.name)
        request = Request(action, requested_by, allow, made_by)
        with compared(self.journal, project, queries) as (connection, changes):
            answers = [answer_of(connection, project, q, changes[q.name], request, self.clock.now()) for q in queries]
            self._refuse(queries, answers)
            return tuple(self._write(connection, a, q.name) for a, q in zip(answers, queries, strict=True))

    def stop(self, names: Sequence[str], requested_by: str = "") -> Sequence[Ensured]:
        """Stop these jobs, also jobs that the project no longer has; open runs of finite queries end.

        Raises:
            UserError: JOB_UNKNOWN.
        """
        if not self._known(names, self._jobs()):
            return ()
        with self.journal.write() as connection:
            done, jobs = [], dict(self._known(names, rows.jobs(connection)))
            for name in names:
                job = jobs[name]
                if job.desired == "STOPPED" and not is_halted(job) and (not job.becomes or job.action == "stop"):
                    done.append(Ensured(name, "nothing", job.generation))
                    continue
                jobs[name] = row = desired.stopped(job, requested_by, self.clock.now())
                self._save(connection, row)
                done.append(Ensured(name, "stopped", row.generation))
            return tuple(done)

    def withdraw(
        self, names: Sequence[str], generations: Mapping[str, int], requested_by: str = ""
    ) -> Sequence[Ensured]:
        """Withdraw requests that have not led to a running job yet (a cancelled launch). A job that runs, or that has a
        newer request, is left alone (outcome ``nothing``).

        Args:
            names: jobs.
            generations: as :meth:`ensure` returned them; jobs that are not in it (adopted ones) are left alone.
            requested_by: shown in the history.
        """
        if not self.journal.exists():
            return ()
        done = []
        with self.journal.write() as connection:
            jobs = rows.jobs(connection, names)
            observed = rows.statuses(connection, names)
            for name in names:
                job, status = jobs.get(name), observed.get(name, StatusRow(name))
                running = status.state == "RUNNING" and status.generation >= generations.get(name, 0)
                if job is None or running or job.generation != generations.get(name) or job.desired == "STOPPED":
                    done.append(Ensured(name, "nothing", 0 if job is None else job.generation))
                    continue
                row = desired.stopped(job, requested_by, self.clock.now())
                self._save(connection, row)
                done.append(Ensured(name, "stopped", row.generation))
        return tuple(done)

    def wait(
        self,
        names: Sequence[str],
        generations: Mapping[str, int],
        timeout: float,
        on_change: OnChange | None = None,
    ) -> Sequence[JobStatus]:
        """Watch requests until each is answered, or ``timeout`` seconds are over; never raises for a job's failure.

        A request is answered when the engine has acted on its generation and the job is RUNNING (proved by a finished
        batch or empty sources), FAILED (with its condition), STOPPED or FINISHED. After the timeout, other jobs are
        returned in their present state. ``on_change`` gets a status when state, message or batch changes.
        """
        end = self.clock.monotonic() + timeout
        marks: dict[str, tuple[str, str, int | None]] = {}
        while True:
            statuses = self.statuses(names)
            for status in statuses:
                mark = (status.state, status.message, status.batch)
                if on_change is not None and marks.get(status.name) != mark:
                    on_change(status)
                marks[status.name] = mark
            if all(_is_answered(s, generations.get(s.name, 0)) for s in statuses) or self.clock.monotonic() >= end:
                return statuses
            self.clock.sleep(POLL_SECONDS)

    # -- finite runs -------------------------------------------------------------------------------------------------

    def request_run(
        self,
        project: LoadedProject,
        name: str,
        requested_by: str = "",
        *,
        action: Action = "ensure",
        allow: Collection[Consent] = (),
        catch_up: float = CATCH_UP_SECONDS,
    ) -> int:
        """Request one run of a finite query; an open run is adopted. Returns the request's id.

        Args:
            project: loaded project.
            name: query name.
            requested_by: shown in the history.
            action: ``ensure`` refuses a definition that needs a new checkpoint; ``reset`` starts a new checkpoint.
            allow: as for :meth:`ensure`.
            catch_up: seconds the run may wait until the jobs it reads from have processed the records that exist now.

        Raises:
            UserError: JOB_NOT_FINITE, JOB_UNKNOWN, DEFINITION_CHANGED, RESET_WOULD_DOUBLE, RESET_WHILE_LOADING.
        """
        query, request = self._finite(project, name), Request(action, requested_by, allow)
        with compared(self.journal, project, [query]) as (connection, changes):
            adopted = run_underway(connection, query, request, self.clock.now())
            if adopted is not None:
                return adopted.id
            self._want_run(connection, project, query, changes[name], request)
            return rows.add_request(connection, new_request(project, query, requested_by, self.clock.now(), catch_up))

    def run_in_session(
        self,
        project: LoadedProject,
        name: str,
        session: SparkSession,
        requested_by: str = "",
        *,
        action: Action = "ensure",
        allow: Collection[Consent] = (),
        catch_up: float = CATCH_UP_SECONDS,
    ) -> FiniteResult:
        """Run a finite query once in the caller's Spark session, without an engine; if a run is already open, wait for
        that one instead. Arguments and errors as :meth:`request_run`; a load that fails is returned, not raised."""
        from ds_dagster.engine.step import HOLD_SECONDS, StepRun

        query, request = self._finite(project, name), Request(action, requested_by, allow)
        with compared(self.journal, project, [query]) as (connection, changes):
            other = run_underway(connection, query, request, self.clock.now())
            if other is None:
                self._want_run(connection, project, query, changes[name], request)
                now = self.clock.now()
                row = new_request(project, query, requested_by, now, catch_up)
                row = replace(row, state="STEP", started=now)
                held = replace(row, waiting_since=now + HOLD_SECONDS)
                row = replace(row, id=rows.add_request(connection, held))
                job = rows.jobs(connection, [name])[name]
                status = rows.statuses(connection, [name]).get(name, StatusRow(name))
        if other is not None:
            return self.wait_run(other.id)
        if status.state in ACTIVE | PENDING:
            status = replace(status, state="ABSENT")
        return StepRun(self.settings, self.journal, self.clock, job, row, status).run(session)

    def wait_run(
        self, request: int, timeout: float = 3600.0, on_change: Callable[[FiniteResult | None], None] | None = None
    ) -> FiniteResult:
        """Wait for the end of a finite run; a run that failed is returned, not raised.

        Raises:
            UserError: REQUEST_UNKNOWN.
            ExternalError: RUN_TIMED_OUT (the run goes on), ENGINE_NOT_RUNNING, POOL_ENGINE_NOT_RUNNING.
        """
        start = heard = self.clock.monotonic()
        while True:
            with self.journal.read() as connection:
                row = rows.request(connection, request)
            if row is None:
                raise error("REQUEST_UNKNOWN", request=request)
            result = rows.result(row)
            if on_change is not None:
                on_change(result)
            if result is not None:
                return result
            now = self.clock.monotonic()
            if row.state == "STEP" and row.waiting_since < self.clock.now():
                with self.journal.write() as connection:
                    open_request(connection, row.name, self.clock.now())  # closes it: its step has died
                continue
            pool = self.status(row.name).pool
            if row.state == "STEP" or self.fleet.watch(pool).status().state not in ("GONE", "UNKNOWN"):
                heard = now
            if now - heard > ENGINE_GRACE_SECONDS:
                raise not_running(pool)
            if now - start > timeout:
                raise error("RUN_TIMED_OUT", name=row.name, request=request, seconds=int(timeout))
            self.clock.sleep(POLL_SECONDS)

    def withdraw_run(self, request: int) -> bool:
        """Cancel an open run; False if it is already over."""
        with self.journal.write() as connection:
            bump_revision(connection)
            return rows.close_request(connection, request, self.clock.now())

    # -- the engine --------------------------------------------------------------------------------------------------

    def ensure_engines(self, names: Collection[str], wait: float = 60.0) -> None:
        """:meth:`ensure_engine` for each engine that jobs need; for the project's own engine if no job needs one.
        Engines of the named jobs must start, and the call waits for them; others are started without waiting, and their
        errors are ignored."""
        self.fleet.ensure_needed(wait, names)

    def ensure_engine(self, wait: float = 60.0, pool: str = "") -> EngineStatus:
        """Make sure an engine runs: the local launcher starts it if it is gone, ``external`` only checks.

        Args:
            wait: seconds until it must be ready; 0: start it and return.
            pool: compute pool of the engine; empty: the project's own engine.

        Raises:
            DsError: ENGINE_START_FAILED, ENGINE_START_SLOW, ENGINE_NOT_ANSWERING; JOURNAL_OLDER: the running engine has
                an older version.
        """
        return self.fleet.ensure(wait, pool)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def sees_checkpoints(self) -> bool:
        """Whether this process reads and writes the same checkpoints as the engine."""
        return self.settings.checkpoints.in_bucket or self.fleet.shares_host()

    def checkpoints(self) -> Checkpoints:
        """The checkpoint folders of this project's queries."""
        return Checkpoints.of(self.settings, self.journal.identity())

    def old_checkpoints(self) -> Sequence[OldCheckpoint]:
        """Checkpoint folders of former versions, for ``ds gc``."""
        current = {job.writes_as: job.checkpoint_version for job in self._jobs().values()}
        return self.checkpoints().old(current) if current else ()

    def delete_checkpoint(self, checkpoint: OldCheckpoint) -> None:
        """Delete one of :meth:`old_checkpoints` for good."""
        self.checkpoints().delete(checkpoint)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _jobs(self) -> Mapping[str, JobRow]:
        if not self.journal.exists():
            return {}
        with self.journal.read() as connection:
            return rows.jobs(connection)

    def _known(self, names: Sequence[str], jobs: Mapping[str, JobRow]) -> Mapping[str, JobRow]:
        for name in names:
            if name not in jobs:
                raise error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, jobs))
        return jobs

    def _unknown(self, name: str) -> JobStatus:
        return JobStatus(name, job_id="", relation="", state="ABSENT", desired="STOPPED")

    def _queries(self, project: LoadedProject, names: Sequence[str] | None) -> Sequence[BoundQuery]:
        """The queries of these names, in the project's order (sources first)."""
        for name in names or ():
            if name not in project.queries:
                raise error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, project.queries))
        return tuple(query for name, query in project.queries.items() if names is None or name in names)

    def _refuse(self, queries: Sequence[BoundQuery], answers: Sequence[Answer]) -> None:
        refused = [(q, a) for q, a in zip(queries, answers, strict=True) if a.refused]
        if refused:
            query, first = refused[0]
            raise desired.definition_changed([q.name for q, _ in refused], query, first)

    def _write(self, connection: Connection, answer: Answer, name: str) -> Ensured:
        if answer.row is not None:
            self._save(connection, answer.row)
        row = answer.row or rows.jobs(connection, [name]).get(name)
        generation = row.generation if row is not None and answer.generation is None else answer.generation or 0
        return Ensured(name, answer.outcome, generation)

    def _save(self, connection: Connection, row: JobRow) -> None:
        before = rows.save_job(connection, row)
        rows.add_transitions(connection, [desired.transition(row, before)])
        if row.desired == "STOPPED":
            rows.close_requests(connection, row.name, self.clock.now())
        bump_revision(connection)

    def _finite(self, project: LoadedProject, name: str) -> BoundQuery:
        (query,) = self._queries(project, [name])
        if not query.is_finite:
            raise error("JOB_NOT_FINITE", span=query.sink.span, name=name)
        return query

    def _want_run(
        self, connection: Connection, project: LoadedProject, query: BoundQuery, change: Change, request: Request
    ) -> None:
        """Write the desired state for one run; every full load begins with a new checkpoint."""
        wanted: Action = "reset" if query.refresh == "full" and change.verdict != "new" else request.action
        action: Action = "restart" if wanted == "ensure" else wanted
        demand = replace(request, action=action)
        answer = answer_of(connection, project, query, change, demand, self.clock.now())
        self._refuse([query], [answer])
        self._write(connection, answer, query.name)


def _is_answered(status: JobStatus, generation: int) -> bool:
    return status.state in SETTLED and status.reported_generation >= generation
