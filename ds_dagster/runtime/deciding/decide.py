"""Decides between retry and stop after a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from ds_dagster.errors import Fault
from ds_dagster.runtime.deciding.backoff import Backoff

INTERNAL_ATTEMPTS = 5
"""A job stops after this many failed starts, if the last one failed with an internal error (a bug of ours)."""

FINITE_ATTEMPTS = 5
"""A run of a finite query fails after this many failed starts, unless the machine is only too busy (hint ``soon``)."""

SOON = 30.0
"""Longest delay between starts, in seconds, after a fault that soon passes by itself: the machine was too busy."""

REPEATS, REPEATED_SECONDS = 10, 600.0
"""A job fails for good after this many failures of one batch with one condition, over at least this many seconds."""

ENDS = {"ENGINE_OUT_OF_MEMORY": 2}
"""Conditions that end the whole engine → failures of one batch after which its job fails for good, without a minimum
time."""


@dataclass(frozen=True, slots=True)
class Streak:
    """How often one batch has failed in a row with one condition.

    Attributes:
        condition: of all failures.
        batch: last finished batch before the failing batch, or None.
        count: number of failures, including the last one.
        since: time of the first failure, epoch seconds.
    """

    condition: str
    batch: int | None
    count: int
    since: float

    @classmethod
    def after(cls, before: str, condition: str, batch: int | None, now: float) -> Streak:
        """The streak with one more failure. ``before``: JSON from the journal, empty without a streak."""
        last = cls(*json.loads(before)) if before else cls("", None, 0, now)
        if (last.condition, last.batch) != (condition, batch):
            return cls(condition, batch, 1, now)
        return cls(condition, batch, last.count + 1, last.since)

    def to_json(self) -> str:
        """JSON for the journal."""
        return json.dumps([self.condition, self.batch, self.count, self.since])

    def is_over(self, now: float) -> bool:
        """Whether the batch has failed often enough."""
        if self.condition in ENDS:
            return self.count >= ENDS[self.condition]
        return self.count >= REPEATS and now - self.since >= REPEATED_SECONDS

    def text(self, now: float) -> str:
        """The failing batch and its failures, for log and journal."""
        return f"batch {0 if self.batch is None else self.batch + 1} {self.count_text(now)}"

    def count_text(self, now: float) -> str:
        """:meth:`text` without the batch."""
        minutes = (now - self.since) / 60
        return f"failed {self.count} times in a row with {self.condition}, over {minutes:.0f} min"


@dataclass(frozen=True, slots=True)
class Decision:
    """``after``: seconds until the next start, None = stop. ``because``: for log and journal."""

    after: float | None
    because: str


def decide(
    fault: Fault,
    attempts: int,
    *,
    finite: bool,
    backoff: Backoff,
    random: Callable[[], float],
    streak: Streak | None = None,
    now: float = 0.0,
) -> Decision:
    """Retry or stop.

    Args:
        fault: of the failure.
        attempts: failed starts since the job was last healthy, this one included.
        finite: whether it is a run of a finite query.
        backoff, random: for the delays.
        streak: failures of the same batch in a row.
        now: epoch seconds.
    """
    if fault.hint == "never":
        return Decision(None, "a retry cannot help")
    if fault.domain == "internal" and attempts >= INTERNAL_ATTEMPTS:
        return Decision(None, f"failed {attempts} times in a row")
    if streak is not None and not fault.lasts and streak.is_over(now):
        return Decision(None, streak.text(now))
    if finite and attempts >= FINITE_ATTEMPTS and fault.hint != "soon":
        return Decision(None, f"the run failed {attempts} times")
    paced = replace(backoff, limit=min(SOON, backoff.limit)) if fault.hint == "soon" else backoff
    delay = paced.delay(attempts, random)
    return Decision(delay, f"attempt {attempts} failed, next in {delay:.1f} s")
