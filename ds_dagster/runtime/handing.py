"""The engine's part of versions beside each other: the steps that :mod:`ds_dagster.runtime.deciding.versions` decides.
Each is one transaction of the journal, or an errand of the host that may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ds_dagster.clock import Clock
from ds_dagster.errors import DsError
from ds_dagster.runtime.deciding.versions import Turn, after, exchanged, turns
from ds_dagster.runtime.host import Errand, Host, StartOrder
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal, bump_revision
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import JobRow, StatusRow, Transition
from ds_dagster.runtime.journals.told import told
from ds_dagster.runtime.processes.joblog import JobLog

PAUSES = {"serve": 2.0, "drop": 60.0}
"""Kind of errand → seconds between two tries."""

REASONS = {
    "halt": "version {version} takes over",
    "settle": "it has caught up",
    "give_up": "version {version} did not take over",
    "resume": "no version takes over",
}
"""Step → what the history says."""


@dataclass(frozen=True, slots=True)
class HandOvers:
    """Steps of hand-overs and of versions that go.

    Attributes:
        journal, host, lease, clock, log: of the engine.
        order: the start order of a job, for its places in the stores.
    """

    journal: Journal
    host: Host
    lease: Lease
    clock: Clock
    log: JobLog
    order: Callable[[str], StartOrder]
    _retry_at: dict[str, float] = field(default_factory=dict, init=False)

    def tick(self, jobs: Mapping[str, JobRow], statuses: dict[str, StatusRow]) -> bool:
        """One step of each hand-over. ``statuses`` is changed with the journal. Returns whether rows were written.

        Raises:
            DsError: the journal cannot be used now (the next tick goes on), ENGINE_LEASE_LOST.
        """
        outcomes = self.host.errands()
        is_changed = False
        for turn in turns(jobs, statuses, self.clock.now()):
            if turn.step in ("serve", "drop"):
                is_changed |= self._errand(turn, outcomes, statuses)
            elif turn.step != "wait":
                is_changed |= self._step(turn)
        return is_changed

    def _errand(self, turn: Turn, outcomes: Mapping[str, DsError | None], statuses: dict[str, StatusRow]) -> bool:
        name = turn.other.name
        if name not in outcomes:
            if self._retry_at.get(name, 0.0) <= self.clock.monotonic():
                kind = "serve" if turn.step == "serve" else "drop"
                self.host.run_errand(Errand(kind, self.order(name), turn.job.version))  # type: ignore[arg-type]
            return False
        failure = outcomes[name]
        if failure is None:
            return self._exchange(turn, statuses) if turn.step == "serve" else self._forget(turn, statuses)
        self.log.line(name, "WARNING", f"{turn.step} failed: {failure}")
        if turn.step == "serve" and (failure.fault.hint == "never" or failure.fault.domain == "internal"):
            return self._step(replace(turn, step="give_up"), failure)
        self._retry_at[name] = self.clock.monotonic() + PAUSES[turn.step]
        return False

    def _step(self, turn: Turn, failure: DsError | None = None) -> bool:
        """Write the rows of a step, unless somebody has asked for something else meanwhile."""
        now = self.clock.now()
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            for row in after(turn, now):
                moved = row.generation != (turn.job if row.name == turn.job.name else turn.other).generation
                (rows.save_job if moved else rows.mark_job)(connection, row)
                rows.add_transitions(connection, [_transition(turn, row, now, failure)])
            bump_revision(connection)
        return True

    def _exchange(self, turn: Turn, statuses: dict[str, StatusRow]) -> bool:
        """The public names have changed in the stores: the jobs change theirs."""
        now = self.clock.now()
        jobs, changed = exchanged(turn, now)
        with self.journal.write() as connection:
            if not self._is_current(connection, turn):
                return True
            rows.delete_job(connection, turn.other.name)
            rows.delete_job(connection, turn.job.name)
            rows.insert_jobs(connection, jobs)
            rows.save_statuses(connection, changed, writer=self.lease.row.token)
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

    def _is_current(self, connection: Connection, turn: Turn) -> bool:
        """Whether the journal still has the rows that were decided from; the lease is renewed with it."""
        self.lease.renew(connection)
        stored = rows.jobs(connection, [turn.job.name, turn.other.name])
        return stored == {row.name: row for row in (turn.job, turn.other)}


def _transition(turn: Turn, row: JobRow, now: float, failure: DsError | None) -> Transition:
    before = turn.job if row.name == turn.job.name else turn.other
    status = turn.other_status if turn.step == "give_up" else StatusRow("")
    said = {"condition": status.condition, "message": status.message, "parameters": status.parameters}
    said = said if failure is None else told(failure)
    return Transition(
        name=row.name,
        at=now,
        kind="desired",
        source=before.role if before.role != row.role else before.desired,
        target=row.role if before.role != row.role else row.desired,
        reason=REASONS[turn.step].format(version=turn.other.version),
        condition=said["condition"],
        message=said["message"],
        parameters=said["parameters"],
        generation=row.generation,
        actor=turn.other.requested_by,
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
