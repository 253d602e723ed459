"""What to do after a failure: the one function that decides between retry and stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ds_dagster.errors import Fault
from ds_dagster.runtime.backoff import Backoff

INTERNAL_ATTEMPTS = 5
"""A bug of ours is tried so often; then the job stops and says so."""

FINITE_ATTEMPTS = 5
"""A run that somebody waits for gives up after so many starts, whatever the reason."""

SOON = 5.0
"""Seconds between starts at most where the machine itself was too busy: that passes, nobody else has to mend it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """``after``: seconds until the next start, None = stop. ``because``: for log and journal."""

    after: float | None
    because: str


def decide(fault: Fault, attempts: int, *, finite: bool, backoff: Backoff, random: Callable[[], float]) -> Decision:
    """Retry or stop.

    Args:
        fault: of the failure.
        attempts: failed starts since the job was last healthy, this one included.
        finite: whether somebody waits for its end.
        backoff, random: where delays come from.
    """
    if fault.hint == "never":
        return Decision(None, "a retry cannot help")
    if fault.domain == "internal" and attempts >= INTERNAL_ATTEMPTS:
        return Decision(None, f"failed {attempts} times in a row")
    if finite and attempts >= FINITE_ATTEMPTS:
        return Decision(None, f"the run failed {attempts} times")
    paced = replace(backoff, limit=min(SOON, backoff.limit)) if fault.hint == "soon" else backoff
    delay = paced.delay(attempts, random)
    return Decision(delay, f"attempt {attempts} failed, next in {delay:.1f} s")
