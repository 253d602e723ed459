"""One round of decisions: turns desired and observed state into rows to write and effects. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ds_dagster.errors import DsError, error
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.decide import ENDS, Streak, decide
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.host import Observation
from ds_dagster.runtime.journals.finite import advance, ended
from ds_dagster.runtime.journals.records import JobRow, RequestRow, StatusRow, Transition
from ds_dagster.runtime.journals.states import ACTIVE, PENDING, check_transition
from ds_dagster.runtime.journals.told import NOTHING, told
from ds_dagster.runtime.status import JobState

WAIT_SECONDS = 60.0
"""Interval at which a job that waits for another job is retried, even without news of the other job."""

MOST_STEPS = 4
"""Most transitions of one job in one round; more would be a loop (a restart takes three)."""

MOVES = "it moves to the engine of another compute pool"
"""Reason of the transitions of a job that moves to another engine."""

_CLEAR: Mapping[str, Any] = {**NOTHING, "next_retry": None}


@dataclass(frozen=True, slots=True)
class Effect:
    """An action to take after the round is written. ``known``: the job has started with this checkpoint version before
    (kind ``start`` only)."""

    kind: Literal["start", "stop", "fence", "forget"]
    name: str
    known: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a round.

    Attributes:
        jobs, specs, requests: desired state, definitions and open requests, by job.
        statuses: as last written, by job.
        retry_at: job → monotonic time before which it is not started while it backs off or waits.
        now, monotonic: epoch seconds, and seconds of the monotonic clock.
        draining: the engine ends.
        backoff, random: for delays.
        leaving: our jobs that move to the engine of another compute pool.
        others, wanted_elsewhere: statuses of other engines' jobs, by job, and the names of those that are wanted.
    """

    jobs: Mapping[str, JobRow]
    specs: Mapping[str, JobSpec]
    requests: Mapping[str, RequestRow]
    statuses: Mapping[str, StatusRow]
    retry_at: Mapping[str, float]
    now: float
    monotonic: float
    draining: bool
    backoff: Backoff
    random: Callable[[], float]
    leaving: frozenset[str] = frozenset()
    others: Mapping[str, StatusRow] = field(default_factory=dict)
    wanted_elsewhere: frozenset[str] = frozenset()


@dataclass(slots=True)
class Round:
    """Collects the outcome of one round."""

    situation: Situation
    statuses: dict[str, StatusRow] = field(default_factory=dict)
    requests: dict[str, RequestRow] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    retry_at: dict[str, float] = field(default_factory=dict)

    # -- the two entries ---------------------------------------------------------------------------------------------

    def take_over(self, name: str) -> None:
        """Settle a job of a former engine: its query is gone. A job that was being started may have killed that engine,
        so it backs off first; other jobs start at once."""
        status, situation = self.status(name), self.situation
        if status.state == "BACKING_OFF":
            left = (status.next_retry or 0.0) - situation.now
            self.retry_at[name] = situation.monotonic + min(max(0.0, left), situation.backoff.limit)
        if status.state in ACTIVE:
            self._move(name, "ABSENT", "its engine is gone")
        if status.state == "STARTING":
            self._back_off(name, status.attempts + 1, "its engine ended while it was starting")

    def decide(self, name: str, observation: Observation | None) -> None:
        """All transitions that one job can make now. ``observation``: of its query; None if the host has no query."""
        self._follow_request(name)
        self._follow(name, observation)
        for _ in range(MOST_STEPS):
            if not self._step(name):
                return
        raise error("INTERNAL", where=f"reconciling {name} does not come to rest")

    def status(self, name: str) -> StatusRow:
        """The status of a job, as decided so far in this round."""
        situation = self.situation
        return self.statuses.get(name) or situation.statuses.get(name) or situation.others.get(name) or StatusRow(name)

    def ended_by(self, observations: Mapping[str, Observation], failure: DsError) -> None:
        """The engine ends because of this failure: count it for every job that was in a batch, since each may be the
        cause. A job for which it is counted twice in the same batch fails (see ``ENDS``)."""
        for name, observation in observations.items():
            status = self.status(name)
            if (
                observation.busy
                and status.state in ("STARTING", "RUNNING")
                and observation.incarnation == status.incarnation
            ):
                self._failed(name, observation, type(failure)(failure.condition, {**failure.params, "jobs": name}))

    # -- observed state ----------------------------------------------------------------------------------------------

    def _follow(self, name: str, observation: Observation | None) -> None:
        status = self.status(name)
        if status.state not in ACTIVE:
            if observation is not None:
                self.effects.append(Effect("forget" if is_over(observation) else "stop", name))
        elif observation is None or observation.incarnation != status.incarnation:
            self._move(name, "ABSENT", "its query is gone")
        elif observation.phase == "running" and status.state == "STARTING":
            self._move(name, "RUNNING", "it works", **_CLEAR)
        elif observation.phase == "failed":
            self._failed(name, observation, observation.failure or error("JOB_ENDED_BY_ITSELF", name=name))
        elif observation.phase == "finished":
            self.effects.append(Effect("forget", name))
            self._move(name, "FINISHED", "everything available is loaded", attempts=0, **_CLEAR)
            self._close_request(name, "FINISHED", observation, None)
        elif observation.phase == "stopped" and status.state == "STOPPING":
            self._stopped(name, "it ended as requested")
        elif observation.phase == "stopped":
            self._failed(name, observation, error("JOB_ENDED_BY_ITSELF", name=name))
        elif observation.outdated and status.state == "RUNNING" and not self.situation.specs[name].is_finite:
            self._stop(name, observation.outdated)  # the next rounds start it again, since it is still wanted

    def _failed(self, name: str, observation: Observation, failure: DsError) -> None:
        status, situation = self.status(name), self.situation
        if status.state == "STOPPING":
            self._stopped(name, f"it failed while it was stopped: {failure.message}")
            return
        self.effects.append(Effect("forget", name))
        if failure.fault.hint == "wait" and self._may_wait(name):
            self._wait(name, failure)
            return
        batch = status.batch if observation.progress.batch is None else observation.progress.batch
        streak = Streak.after(status.streak, failure.condition, batch, situation.now)
        attempts, columns = status.attempts + 1, told(failure) | {"streak": streak.to_json()}
        decision = decide(
            failure.fault,
            attempts,
            finite=situation.specs[name].is_finite,
            backoff=situation.backoff,
            random=situation.random,
            streak=streak,
            now=situation.now,
        )
        if decision.after is not None:
            self._back_off(name, attempts, decision.because, decision.after, **columns)
            return
        if failure.condition == "CHECKPOINT_UNKNOWN":
            columns["checkpoint_version"] = 0
        self._move(name, "FAILED", decision.because, attempts=attempts, next_retry=None, **columns)
        self._close_request(name, "FAILED", observation, failure)

    def _may_wait(self, name: str) -> bool:
        """Whether a job may wait for another one: a continuous job for as long as it is wanted, a finite run until its
        deadline."""
        if not self.situation.specs[name].is_finite:
            return True
        request = self._open_request(name)
        return request is not None and self.situation.now < request.deadline

    def _wait(self, name: str, failure: DsError) -> None:
        """Another job has to work first: the job waits, and this does not count as a failure."""
        self.retry_at[name] = self.situation.monotonic + WAIT_SECONDS
        next_retry = self.situation.now + WAIT_SECONDS
        self._move(name, "WAITING", "another job has to work first", **told(failure) | {"next_retry": next_retry})

    def _stopped(self, name: str, reason: str) -> None:
        """The query has ended on our request. The present generation is answered only if the job is not wanted."""
        self.effects.append(Effect("forget", name))
        if self.situation.draining:
            self._move(name, "ABSENT", "the engine ends")
            return
        if name in self.situation.leaving:
            self._move(name, "ABSENT", MOVES)
            return
        answered = {} if self._is_wanted(name) else {"generation": self.situation.jobs[name].generation}
        self._move(name, "STOPPED", reason, **_CLEAR, **answered)

    # -- desired state -----------------------------------------------------------------------------------------------

    def _step(self, name: str) -> bool:
        """One transition towards desired state; False when nothing more can be done in this round."""
        status = self.status(name)
        newer = self.situation.jobs[name].generation > status.generation
        if self._is_wanted(name):
            if status.state in ("STARTING", "RUNNING") and newer:
                self._stop(name, self._asked(name))
            elif self._may_start(status, newer):
                self._start(name, newer)
            return False
        if status.state in ("STARTING", "RUNNING"):
            leaves = MOVES if name in self.situation.leaving else self._asked(name)
            self._stop(name, "the engine ends" if self.situation.draining else leaves)
        elif self.situation.draining and status.state in PENDING:
            self._move(name, "ABSENT", "the engine ends", next_retry=None)
        elif status.state != "STOPPING" and not self.situation.draining:
            self._put_down(name, status, newer)
        return False

    def _is_wanted(self, name: str) -> bool:
        desired = self.situation.jobs[name].desired
        if self.situation.draining or desired == "STOPPED" or name in self.situation.leaving:
            return False
        if desired == "RUNNING":
            return True
        request = self._open_request(name)
        return request is not None and request.state == "RUNNING"

    def _may_start(self, status: StatusRow, newer: bool) -> bool:
        if _is_suspect(status) and any(
            other.state == "STARTING" and _is_suspect(other) for other in map(self.status, self.situation.statuses)
        ):
            return False  # suspects start one by one, so that the others have finished their batch before the next
        if status.state in ("ABSENT", "STOPPED", "FINISHED"):
            return True
        if status.state in PENDING:
            due = self.retry_at.get(status.name, self.situation.retry_at.get(status.name, 0.0))
            return newer or due <= self.situation.monotonic or self._has_come_up(status)
        return status.state == "FAILED" and newer

    def _has_come_up(self, status: StatusRow) -> bool:
        """Whether a job waits and a job that it reads from has come up since the last start."""
        if status.state != "WAITING":
            return False
        sources = (self.status(name) for name in self.situation.specs[status.name].upstream)
        return any(source.state == "RUNNING" and source.since > (status.started or 0.0) for source in sources)

    def _start(self, name: str, newer: bool) -> None:
        job, status = self.situation.jobs[name], self.status(name)
        is_same_version = status.checkpoint_version == job.checkpoint_version
        changes: dict[str, Any] = {
            "incarnation": uuid.uuid4().hex,
            "generation": job.generation,
            "fingerprint": job.fingerprint,
            "checkpoint_version": job.checkpoint_version,
            "started": self.situation.now,
            "next_retry": None,
            "rows": 0,
            "caught_up": None,
        }
        changes |= {} if is_same_version else {"batch": None}
        changes |= {**_CLEAR, "attempts": 0, "streak": ""} if newer else {}
        self._move(name, "STARTING", self._asked(name) if newer else "it is wanted", **changes)
        self.effects.append(Effect("start", name, is_same_version))

    def _stop(self, name: str, reason: str) -> None:
        self._move(name, "STOPPING", reason)
        self.effects.append(Effect("stop", name))

    def _put_down(self, name: str, status: StatusRow, newer: bool) -> None:
        """Stop a job that is not wanted and has no query. If it had one, transactions that it left open in its sink are
        ended (effect ``fence``)."""
        job = self.situation.jobs[name]
        if job.desired == "STOPPED" and newer and status.state == "STOPPED":
            self.statuses[name] = replace(status, generation=job.generation)
        elif (job.desired == "STOPPED" and newer) or status.state in PENDING:
            if status.incarnation and status.state != "FINISHED":
                self.effects.append(Effect("fence", name))
            self._move(name, "STOPPED", self._asked(name), generation=job.generation, **_CLEAR)

    def _asked(self, name: str) -> str:
        job = self.situation.jobs[name]
        return f"{job.action} requested by {job.requested_by}" if job.requested_by else f"{job.action} requested"

    # -- finite runs -------------------------------------------------------------------------------------------------

    def _follow_request(self, name: str) -> None:
        request = self.situation.requests.get(name)
        if request is None or request.state != "WAITING" or self.situation.draining:
            return
        situation = self.situation
        wanted = {other for other, job in situation.jobs.items() if job.desired == "RUNNING"}
        statuses = {**situation.others, **situation.statuses}
        moved = advance(request, statuses, wanted | situation.wanted_elsewhere, situation.now)
        if moved != request:
            self.requests[name] = moved

    def _open_request(self, name: str) -> RequestRow | None:
        return self.requests.get(name) or self.situation.requests.get(name)

    def _close_request(
        self, name: str, state: Literal["FINISHED", "FAILED"], observation: Observation, failure: DsError | None
    ) -> None:
        request = self._open_request(name)
        if request is not None:
            self.requests[name] = ended(request, state, observation, failure, self.situation.now)

    # -- recording ---------------------------------------------------------------------------------------------------

    def _back_off(self, name: str, attempts: int, reason: str, delay: float | None = None, **changes: Any) -> None:
        situation = self.situation
        delay = situation.backoff.delay(attempts, situation.random) if delay is None else delay
        self.retry_at[name] = situation.monotonic + delay
        self._move(name, "BACKING_OFF", reason, attempts=attempts, next_retry=situation.now + delay, **changes)

    def _move(self, name: str, target: JobState, reason: str, **changes: Any) -> None:
        status, now = self.status(name), self.situation.now
        check_transition(name, status.state, target)
        moved = replace(status, state=target, since=now, **changes)
        self.statuses[name] = moved
        self.transitions.append(
            Transition(
                name=name,
                at=now,
                kind="state",
                source=status.state,
                target=target,
                reason=reason,
                condition=moved.condition,
                message=moved.message,
                parameters=moved.parameters,
                incarnation=moved.incarnation,
                generation=moved.generation,
                seconds=max(0.0, now - status.since) if status.since else 0.0,
                actor="engine",
            )
        )


def _is_suspect(status: StatusRow) -> bool:
    """Whether a job was in a batch when a batch ended the whole engine."""
    return bool(status.streak) and json.loads(status.streak)[0] in ENDS


def is_over(observation: Observation) -> bool:
    """Whether an incarnation has ended."""
    return observation.phase in ("stopped", "finished", "failed")
