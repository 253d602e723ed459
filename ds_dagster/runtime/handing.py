"""Carries out the steps of versions and hand-overs that :mod:`ds_dagster.runtime.deciding.versions` decides. Each step
is one transaction of the journal, or an errand of the host that may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ds_dagster.clock import Clock
from ds_dagster.errors import DsError
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.decide import Streak, decide
from ds_dagster.runtime.deciding.desired import taken_over
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.deciding.versions import Turn, after, exchanged, turns
from ds_dagster.runtime.host import Errand, Host, StartOrder
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal, bump_revision
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import JobRow, StatusRow, Transition
from ds_dagster.runtime.journals.told import told
from ds_dagster.runtime.processes.joblog import JobLog

REASONS = {
    "halt": "version {version} takes over",
    "settle": "it has caught up",
    "give_up": "version {version} did not take over",
    "resume": "no version takes over",
}
"""Step → reason in the history."""


Request = tuple[str, int, int]
"""Key of an errand under way: step, and the generations of both jobs. A newer request has another key."""


@dataclass(frozen=True, slots=True)
class HandOvers:
    """Carries out hand-overs, removals of versions and renamings.

    Attributes:
        journal, host, lease, clock, log: of the engine.
        order: returns the start order of a job; errands need its places in the stores.
        backoff, random: delays between two tries of an errand.
    """

    journal: Journal
    host: Host
    lease: Lease
    clock: Clock
    log: JobLog
    order: Callable[[str], StartOrder]
    backoff: Backoff
    random: Callable[[], float]
    _retry_at: dict[str, float] = field(default_factory=dict, init=False)
    _under_way: dict[str, Request] = field(default_factory=dict, init=False)

    def tick(self, jobs: Mapping[str, JobRow], specs: Mapping[str, JobSpec], statuses: dict[str, StatusRow]) -> bool:
        """One step of each hand-over. ``statuses`` is updated together with the journal. Returns whether the jobs must
        be read again.

        Raises:
            DsError: the journal cannot be used now (the next tick goes on), ENGINE_LEASE_LOST.
        """
        outcomes = {name: (self._under_way.pop(name, None), failure) for name, failure in self.host.errands().items()}
        is_changed = False
        in_turn = frozenset(name for name, spec in specs.items() if spec.in_turn)
        for turn in turns(jobs, statuses, self.clock.now(), in_turn):
            if turn.step in ("serve", "drop", "rename"):
                is_changed |= self._errand(turn, outcomes, statuses)
            elif turn.step != "wait":
                is_changed |= self._step(turn)
        return is_changed

    def _errand(
        self, turn: Turn, outcomes: Mapping[str, tuple[Request | None, DsError | None]], statuses: dict[str, StatusRow]
    ) -> bool:
        name, request = turn.other.name, (turn.step, turn.job.generation, turn.other.generation)
        answered, failure = outcomes.get(name, (None, None))
        if answered != request:
            if name not in self._under_way and self._retry_at.get(name, 0.0) <= self.clock.monotonic():
                if turn.step == "rename" and not turn.job.is_renamed:
                    return self._begin_renaming(turn)
                self._under_way[name] = request
                self.host.run_errand(self._errand_of(turn))
            return False
        if failure is None:
            finish = {"serve": self._exchange, "drop": self._forget, "rename": self._rename}[turn.step]
            return finish(turn, statuses)
        return self._failed(turn, failure, statuses)

    def _failed(self, turn: Turn, failure: DsError, statuses: dict[str, StatusRow]) -> bool:
        """Try an errand again after a delay, or give up a hand-over by the rule for failing batches
        (:func:`ds_dagster.runtime.deciding.decide.decide`). A hand-over whose public names may have changed already is
        retried as long as the store fails."""
        now, before = self.clock.now(), turn.other_status
        streak = Streak.after(before.streak, failure.condition, before.batch, now)
        decision = decide(
            failure.fault,
            before.attempts + 1,
            finite=False,
            backoff=self.backoff,
            random=self.random,
            streak=streak,
            now=now,
        )
        repeats = failure.fault.domain == "external" and decision.after is None and failure.fault.hint != "never"
        because = streak.count_text(now) if repeats else decision.because
        self.log.line(turn.other.name, "WARNING", f"{turn.step}: {because}: {failure}")
        if turn.step == "serve" and decision.after is None and (turn.in_turn or not repeats):
            return self._step(replace(turn, step="give_up"), failure, because)
        delay = self.backoff.limit if decision.after is None else decision.after
        self._retry_at[turn.other.name] = self.clock.monotonic() + delay
        tried = replace(
            before, attempts=before.attempts + 1, streak=streak.to_json(), next_retry=now + delay, **told(failure)
        )
        is_refused = turn.step == "rename" and failure.condition == "RENAME_TARGET_TAKEN"
        row = _without_renaming(turn.job) if is_refused else None
        return self._tried(turn, tried, _tried_again(turn, tried, now, because), statuses, row)

    def _tried(
        self,
        turn: Turn,
        status: StatusRow,
        history: Transition,
        statuses: dict[str, StatusRow],
        row: JobRow | None = None,
    ) -> bool:
        """Write the status of a version whose last step failed and will be retried. ``row``: new row of the job, if it
        changes."""
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            if row is not None:
                rows.mark_job(connection, row)
                bump_revision(connection)
            rows.save_statuses(connection, [status], writer=self.lease.row.token, pool=self.lease.pool)
            rows.add_transitions(connection, [history])
        statuses[status.name] = status
        return row is not None

    def _errand_of(self, turn: Turn) -> Errand:
        order = self.order(turn.other.name)
        if turn.step == "drop":
            return Errand("drop", order)
        if turn.step == "rename":
            return Errand("rename", replace(order, spec=JobSpec.from_json(turn.job.becomes)), serving=order)
        return Errand("serve", order, turn.job.version, self.order(turn.job.name))

    def _step(self, turn: Turn, failure: DsError | None = None, because: str = "") -> bool:
        """Write the rows of a step, unless there is a newer request."""
        now = self.clock.now()
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            for row in after(turn, now):
                moved = row.generation != (turn.job if row.name == turn.job.name else turn.other).generation
                (rows.save_job if moved else rows.mark_job)(connection, row)
                rows.add_transitions(connection, [_transition(turn, row, now, failure, because)])
            bump_revision(connection)
        return True

    def _exchange(self, turn: Turn, statuses: dict[str, StatusRow]) -> bool:
        """The stores have exchanged the public names: exchange the names of the jobs too."""
        now = self.clock.now()
        jobs, changed = exchanged(turn, now)
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            rows.delete_job(connection, turn.other.name)
            rows.delete_job(connection, turn.job.name)
            rows.insert_jobs(connection, jobs)
            rows.save_statuses(connection, changed, writer=self.lease.row.token, pool=self.lease.pool)
            rows.add_transitions(connection, [_served(turn, now)])
            bump_revision(connection)
        statuses.pop(turn.other.name, None)
        statuses.update({status.name: status for status in changed})
        return True

    def _forget(self, turn: Turn, statuses: dict[str, StatusRow]) -> bool:
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            rows.delete_job(connection, turn.other.name)
            bump_revision(connection)
        statuses.pop(turn.other.name, None)
        return True

    def _begin_renaming(self, turn: Turn) -> bool:
        """Mark the job: from here on its tables may have their new names, whatever is requested later."""
        with self.journal.write() as connection:
            if self._is_current(connection, turn):
                rows.mark_job(connection, replace(turn.job, action="renaming"))
                bump_revision(connection)
        return True

    def _rename(self, turn: Turn, statuses: dict[str, StatusRow]) -> bool:
        """The tables have their new names: rename the job and its history."""
        now, former = self.clock.now(), turn.job.name
        row = taken_over(turn.job)
        status = replace(turn.status, name=row.name)
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            rows.delete_job(connection, former)
            rows.rename_history(connection, former, row.name)
            rows.insert_jobs(connection, [row])
            rows.save_statuses(connection, [status], writer=self.lease.row.token, pool=self.lease.pool)
            rows.add_transitions(connection, [_renamed(turn, row, now)])
            bump_revision(connection)
        statuses.pop(former, None)
        statuses[row.name] = status
        return True

    def _is_current(self, connection: Connection, turn: Turn) -> bool:
        """Whether the journal still has the rows that the step was decided from; also renews the lease."""
        self.lease.renew(connection)
        stored = rows.jobs(connection, [turn.job.name, turn.other.name])
        return stored == {row.name: row for row in (turn.job, turn.other)}


def _without_renaming(job: JobRow) -> JobRow:
    """A job whose tables keep their names, since the store refused the new ones."""
    return replace(job, becomes="") if job.action == "stop" else replace(job, action="rename")


def _transition(turn: Turn, row: JobRow, now: float, failure: DsError | None, because: str) -> Transition:
    before = turn.job if row.name == turn.job.name else turn.other
    status = turn.other_status if turn.step == "give_up" else StatusRow("")
    columns = {"condition": status.condition, "message": status.message, "parameters": status.parameters}
    columns = columns if failure is None else told(failure)
    return Transition(
        name=row.name,
        at=now,
        kind="desired",
        source=before.role if before.role != row.role else before.desired,
        target=row.role if before.role != row.role else row.desired,
        reason=": ".join(filter(None, (REASONS[turn.step].format(version=turn.other.version), because))),
        condition=columns["condition"],
        message=columns["message"],
        parameters=columns["parameters"],
        generation=row.generation,
        actor=turn.other.requested_by,
    )


def _tried_again(turn: Turn, status: StatusRow, now: float, because: str) -> Transition:
    return Transition(
        name=turn.other.name,
        at=now,
        kind="desired",
        source=turn.other.role,
        target=turn.other.role,
        reason=because,
        condition=status.condition,
        message=status.message,
        parameters=status.parameters,
        generation=turn.other.generation,
        actor="engine",
    )


def _renamed(turn: Turn, row: JobRow, now: float) -> Transition:
    return Transition(
        name=row.name,
        at=now,
        kind="desired",
        source=turn.job.desired,
        target=row.desired,
        reason=f"{rows.RENAMED_FROM}{turn.job.name}",
        generation=row.generation,
        actor=row.requested_by,
    )


def _served(turn: Turn, now: float) -> Transition:
    return Transition(
        name=turn.job.name,
        at=now,
        kind="desired",
        source=f"version {turn.job.version}",
        target=f"version {turn.other.version}",
        reason=turn.other.action,
        generation=turn.job.generation + 1,
        actor=turn.other.requested_by,
    )
