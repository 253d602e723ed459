"""Brings observed state to desired state, one tick at a time. Does not import Spark.

A tick looks (journal, host), decides (:mod:`ds_dagster.runtime.deciding.round`), writes all decisions in one
transaction, and acts only after that. If the transaction fails, nothing is done, and the next tick decides again. A
second tick without news changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import Connection

from ds_dagster.catalog.reading.skip import skips_of
from ds_dagster.clock import Clock
from ds_dagster.errors import DsError
from ds_dagster.figures import taken_over
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.deciding.placing import held_in, needs_engine, placed_in, pool_of, whole
from ds_dagster.runtime.deciding.round import Effect, Round, Situation, is_over
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.handing import HandOvers
from ds_dagster.runtime.host import Host, KnownShape, Observation, SourceShape, StartOrder
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal, bump_revision, meta
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import EngineRow, JobRow, RequestRow, StatusRow, Transition
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.journals.states import ACTIVE, PENDING
from ds_dagster.runtime.journals.told import NOTHING, told
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import RESTORED

BEAT_SECONDS = 1.0
"""How often figures and the engine's heartbeat are written if there is nothing else to write."""

REFRESH_SECONDS = 5.0
"""How often the row of a job is written if none of its figures changed."""


@dataclass(slots=True)
class Reconciler:
    """Brings jobs to their desired state in the journal.

    Attributes:
        journal, identity, lease: holds desired state; names its jobs; the engine's right to act on them.
        host: runs queries.
        clock, random: time, and numbers in [0, 1) for jitter.
        log: log files of jobs.
        backoff: delays between starts.
        draining: set it to end all queries after their batches without changing desired state.
        places: files of the engine; the places of the project's other engines are derived from it.
    """

    journal: Journal
    identity: Identity
    lease: Lease
    host: Host
    clock: Clock
    random: Callable[[], float]
    log: JobLog
    backoff: Backoff = field(default_factory=Backoff)
    draining: bool = False
    places: Places = field(default_factory=lambda: Places(Path()))
    _revision: str = field(default="", init=False)
    _jobs: Mapping[str, JobRow] = field(default_factory=dict, init=False)
    _specs: Mapping[str, JobSpec] = field(default_factory=dict, init=False)
    _requests: dict[str, RequestRow] = field(default_factory=dict, init=False)
    _statuses: dict[str, StatusRow] = field(default_factory=dict, init=False)
    _all: Mapping[str, JobRow] = field(default_factory=dict, init=False)
    _others: Mapping[str, StatusRow] = field(default_factory=dict, init=False)
    _leaving: frozenset[str] = field(default=frozenset(), init=False)
    _gone: Mapping[str, EngineRow] = field(default_factory=dict, init=False)
    _looked: float = field(default=float("-inf"), init=False)
    _retry_at: dict[str, float] = field(default_factory=dict, init=False)
    _healthy_since: dict[str, float] = field(default_factory=dict, init=False)
    _shapes: dict[str, dict[str, Transition]] = field(default_factory=dict, init=False)
    _observed: Mapping[str, Observation] = field(default_factory=dict, init=False)
    _written: float = field(default=float("-inf"), init=False)
    _hand_overs: HandOvers = field(init=False)

    def __post_init__(self) -> None:
        def order(name: str) -> StartOrder:
            return self._order(name, is_started=True)

        self._hand_overs = HandOvers(
            self.journal, self.host, self.lease, self.clock, self.log, order, self.backoff, self.random
        )

    def take_over(self) -> None:
        """Settle the jobs that a former engine of this pool left behind; call it once, before the first tick. Every
        status is written again, with this engine as its writer. Jobs that a living Dagster step runs are left alone."""
        with self.journal.write() as connection:
            jobs, written = rows.jobs(connection), rows.statuses(connection)
            held = rows.held_by_steps(connection, self.clock.now())
            left = {name: row for name, row in written.items() if name not in held}
            self._statuses = {name: row for name, row in left.items() if self._is_ours(name, jobs, row)}
            decided = Round(self._situation(), statuses=dict(self._statuses))
            for name in self._statuses:
                decided.take_over(name)
            self._write(connection, decided)
            if any(placed_in(jobs[name], jobs) != self.lease.pool for name in self._statuses if name in jobs):
                bump_revision(connection)  # another engine may have them from here on
        self._keep(decided)

    def tick(self) -> None:
        """One round.

        Raises:
            DsError: the journal cannot be used now (nothing was done; call again); ENGINE_LEASE_LOST and errors of
                :meth:`Host.ready` (end the engine).
        """
        self.host.ready()
        self._look()
        observed = self._observed = self.host.observe()
        self._drop_strangers(observed)
        decided = Round(self._situation())
        for name in self._specs:
            if held_in(self._statuses.get(name)) in self._gone:
                decided.take_over(name)
            decided.decide(name, observed.get(name))
        decided.transitions += self._new_shapes(decided, observed)
        beat_due = self.clock.monotonic() - self._written >= BEAT_SECONDS
        if decided.transitions or decided.requests or decided.statuses or beat_due:
            self._add_figures(decided, observed)
            released = [name for name in self._leaving if decided.status(name).state not in ACTIVE]
            with self.journal.write() as connection:
                if not self._may_write(connection, decided):
                    return
                self._write(connection, decided)
                if released:
                    bump_revision(connection)
            self._keep(decided)
        for effect in decided.effects:
            self._act(effect)
        if not self.draining and self._hand_overs.tick(
            whole(self._jobs, self._all, self._leaving), self._specs, self._statuses
        ):
            self._revision = ""

    def ended_by(self, failure: DsError) -> None:
        """The engine ends because of one of its jobs: record the failure for the jobs that may have caused it.

        Raises:
            DsError: JOURNAL_…, ENGINE_LEASE_LOST.
        """
        decided = Round(self._situation())
        decided.ended_by(self._observed, failure)
        with self.journal.write() as connection:
            self._write(connection, decided)
        self._keep(decided)

    def is_idle(self) -> bool:
        """Whether none of our queries runs any more."""
        return not any(status.state in ACTIVE for status in self._statuses.values())

    def is_moving(self) -> bool:
        """Whether a job is being started or stopped."""
        return any(status.state in ("STARTING", "STOPPING") for status in self._statuses.values())

    def is_needed(self) -> bool:
        """Whether one of our jobs is wanted, has a query, or has an open run, according to the last tick."""
        staying = (job for name, job in self._jobs.items() if name not in self._leaving)
        return not self.is_idle() or any(needs_engine(job, self._requests) for job in staying)

    def leave(self) -> bool:
        """Record in the journal that the engine ends because its pool has no work; False, and no record, if it has.

        Raises:
            DsError: JOURNAL_…, ENGINE_LEASE_LOST.
        """
        with self.journal.write() as connection:
            jobs, open_runs = rows.jobs(connection), rows.open_requests(connection)
            placed = (job for job in jobs.values() if placed_in(job, jobs) == self.lease.pool)
            if any(needs_engine(job, open_runs) for job in placed):
                self._revision = ""
                return False
            self.lease.tell("STOPPING")
            self.lease.renew(connection)
        return True

    # -- looking -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read desired state if it has changed; also every second if other engines have jobs, for their statuses."""
        now = self.clock.monotonic()
        are_others_due = len(self._all) > len(self._jobs) and now - self._looked >= BEAT_SECONDS
        with self.journal.read() as connection:
            revision = meta(connection, "revision")
            if revision == self._revision and not are_others_due:
                return
            jobs, written = rows.jobs(connection), rows.statuses(connection)
            requests = rows.open_requests(connection)
            held = rows.held_by_steps(connection, self.clock.now())
            if revision != self._revision:
                self._shapes = {name: dict(last) for name, last in rows.shapes(connection).items()}
            gone = self._gone_engines(connection, jobs, written)
        ours = {name for name in jobs if self._is_ours(name, jobs, written.get(name), gone)}
        self._statuses = {name: row for name, row in self._statuses.items() if name in ours}
        self._statuses |= self._of_others({name: row for name, row in written.items() if name in ours}, held)
        self._requests = {name: request for name, request in requests.items() if name in ours}
        own = {name: job for name, job in jobs.items() if name in ours}
        self._specs = sources_first({name: self._spec(job) for name, job in own.items()})
        self._others = {name: row for name, row in written.items() if name in jobs and name not in ours}
        self._leaving = frozenset(name for name in own if placed_in(own[name], jobs) != self.lease.pool)
        self._jobs, self._all, self._gone, self._revision, self._looked = own, jobs, gone, revision, now

    def _is_ours(
        self, name: str, jobs: Mapping[str, JobRow], status: StatusRow | None, gone: Collection[str] = ()
    ) -> bool:
        """By :mod:`ds_dagster.runtime.deciding.placing`. ``gone``: pools whose engines have ended."""
        if name not in jobs:
            return status is not None and status.pool == self.lease.pool
        is_adopted = held_in(status) in gone and placed_in(jobs[name], jobs) == self.lease.pool
        return is_adopted or pool_of(jobs[name], jobs, status) == self.lease.pool

    def _gone_engines(
        self, connection: Connection, jobs: Mapping[str, JobRow], written: Mapping[str, StatusRow]
    ) -> Mapping[str, EngineRow]:
        """Pools whose engine ended while it had a query of a job that is placed here: pool → lease of that engine."""
        placed = (name for name, job in jobs.items() if placed_in(job, jobs) == self.lease.pool)
        holders = {held for name in placed if (held := held_in(written.get(name))) is not None} - {self.lease.pool}
        return self.lease.ended(connection, self.places, holders)

    def _may_write(self, connection: Connection, decided: Round) -> bool:
        """Whether transitions may be written: desired state must be unchanged, since a job may have moved to another
        engine. Also ends the leases of engines whose jobs are taken over, so that they can no longer write."""
        if not decided.transitions:
            return True
        is_current = meta(connection, "revision") == self._revision
        if is_current and all(rows.end_lease(connection, row) for row in self._gone.values()):
            self._gone = {}
            return True
        self._revision = ""
        return False

    def _drop_strangers(self, observed: Mapping[str, Observation]) -> None:
        """End queries of jobs that belong to another engine by now."""
        for name in [name for name in observed if name in self._all and name not in self._jobs]:
            if is_over(observed[name]):
                self.host.forget(name)
            else:
                self.host.stop(name)

    def _of_others(self, written: Mapping[str, StatusRow], held: Collection[str]) -> Mapping[str, StatusRow]:
        """Statuses to take over from the journal: of Dagster steps for jobs that do not run here (their checkpoints may
        have advanced), killed steps too (not of ``held``), and the last one of another engine for a job now ours."""
        ours, own = ACTIVE | PENDING, self._statuses
        resting = (row for name, row in written.items() if name not in own or own[name].state not in ours)
        return {row.name: row for row in resting if row.state not in ours or self._is_last_word(row, held)}

    def _is_last_word(self, row: StatusRow, held: Collection[str]) -> bool:
        return row.name not in (held if row.writer == STEP else self._statuses) and row.writer != self.lease.row.token

    def _spec(self, job: JobRow) -> JobSpec:
        before = self._jobs.get(job.name)
        return self._specs[job.name] if before and before.spec == job.spec else JobSpec.from_json(job.spec)

    def _situation(self) -> Situation:
        return Situation(
            jobs=self._jobs,
            specs=self._specs,
            requests=self._requests,
            statuses=self._statuses,
            retry_at=self._retry_at,
            now=self.clock.now(),
            monotonic=self.clock.monotonic(),
            draining=self.draining,
            backoff=self.backoff,
            random=self.random,
            leaving=self._leaving,
            others=self._others,
            wanted_elsewhere=frozenset(name for name in self._others if self._all[name].desired == "RUNNING"),
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    def _add_figures(self, decided: Round, observed: Mapping[str, Observation]) -> None:
        """Add the figures of every job that has a query."""
        now = self.clock.now()
        for name, observation in observed.items():
            before = decided.status(name)
            if name not in self._jobs or observation.incarnation != before.incarnation:
                continue
            after = self._healed(replace(taken_over(before, observation.progress), beat=now))
            stale = before.beat is None or not 0.0 <= now - before.beat < REFRESH_SECONDS
            if name in decided.statuses or stale or replace(after, beat=before.beat) != before:
                decided.statuses[name] = after

    def _new_shapes(self, decided: Round, observed: Mapping[str, Observation]) -> list[Transition]:
        """Transitions for shapes of sources that differ from the last shape in their job's history."""
        now, added = self.clock.now(), []
        for name, observation in observed.items():
            history = self._shapes.get(name, {})
            if name not in self._jobs or observation.incarnation != decided.status(name).incarnation:
                continue
            for shape in observation.shapes:
                if shape.key not in history or history[shape.key].target != shape.version:
                    added.append(_transition(name, shape, observation.incarnation, now))
        return added

    def _healed(self, status: StatusRow) -> StatusRow:
        """The status with no failed attempts after a healthy period."""
        now = self.clock.monotonic()
        if status.state != "RUNNING":
            self._healthy_since.pop(status.name, None)
            return status
        since = self._healthy_since.setdefault(status.name, now)
        return replace(status, attempts=0) if self.backoff.is_healthy(now - since) else status

    def _write(self, connection: Connection, decided: Round) -> None:
        self.lease.renew(connection)
        token = self.lease.row.token
        rows.save_statuses(connection, decided.statuses.values(), writer=token, pool=self.lease.pool)
        rows.save_requests(connection, decided.requests.values())
        rows.add_transitions(connection, decided.transitions)

    def _keep(self, decided: Round) -> None:
        """After the commit: apply the decisions to our own copy of the state."""
        self._written = self.clock.monotonic()
        token = self.lease.row.token
        self._statuses |= {n: replace(row, writer=token, pool=self.lease.pool) for n, row in decided.statuses.items()}
        self._requests |= decided.requests
        self._requests = {n: r for n, r in self._requests.items() if r.state in ("WAITING", "RUNNING", "STEP")}
        self._retry_at |= decided.retry_at
        for moved in decided.transitions:
            if moved.kind == "shape":
                self._shapes.setdefault(moved.name, {})[moved.actor] = moved
            moves = (t for t in reversed(decided.transitions) if t.name == moved.name and t.kind == "state")
            is_told = moved.condition and moved is next(moves, None)
            self.log.transition(moved, decided.status(moved.name).detail if is_told else "")

    # -- acting ------------------------------------------------------------------------------------------------------

    def _act(self, effect: Effect) -> None:
        match effect.kind:
            case "start":
                self.host.start(self._order(effect.name, is_started=effect.known))
            case "fence":
                self.host.fence(self._order(effect.name, is_started=effect.known))
            case "stop":
                self.host.stop(effect.name)
            case "forget":
                self.host.forget(effect.name)

    def _order(self, name: str, *, is_started: bool) -> StartOrder:
        job, status = self._jobs[name], self._statuses[name]
        is_restored = RESTORED in job.begins
        return StartOrder(
            name=job.name,
            incarnation=status.incarnation,
            spec=self._specs[job.name],
            identity=self.identity.sink(job.writes_as, job.checkpoint_version),
            checkpoint_version=job.checkpoint_version,
            started=is_started or is_restored,
            progressed=is_restored or (is_started and status.batch is not None),
            skips=skips_of(job.skips),
            begins=job.begins,
            writes_as=job.writes_as,
            place=0 if job.role == "serving" else job.version,
            shapes={key: KnownShape(t.target, t.reason) for key, t in self._shapes.get(name, {}).items()},
        )


def _transition(name: str, shape: SourceShape, incarnation: str, now: float) -> Transition:
    """An entry of the history. The first shape of a source has no condition; later ones have the condition of the
    change."""
    failure = NOTHING if shape.change is None else told(shape.change)
    return Transition(
        name=name,
        at=now,
        kind="shape",
        source=shape.before if shape.change is not None else "",
        target=shape.version,
        reason=shape.text,
        condition=failure["condition"],
        message=failure["message"],
        parameters=failure["parameters"],
        incarnation=incarnation,
        actor=shape.key,
    )


def sources_first(specs: Mapping[str, JobSpec]) -> Mapping[str, JobSpec]:
    """The same jobs, each after the jobs whose output it reads."""
    done: dict[str, JobSpec] = {}

    def visit(name: str, above: frozenset[str]) -> None:
        if name in specs and name not in done and name not in above:
            for source in specs[name].upstream:
                visit(source, above | {name})
            done[name] = specs[name]

    for name in sorted(specs):
        visit(name, frozenset())
    return done
