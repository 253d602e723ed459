"""Retries of the API: how long to wait, and when to give up."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ds_dagster.clock import Clock


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter, with a limit for each delay and for the total.

    Attributes:
        base: upper bound of the first delay, in seconds.
        cap: longest delay, in seconds.
        budget: seconds without any success after which the caller gives up.
        jitter: returns a random number in [0, 1).
    """

    base: float = 0.05
    cap: float = 5.0
    budget: float = 60.0
    jitter: Callable[[], float] = random.random

    def delay(self, attempt: int) -> float:
        """Seconds to wait after ``attempt`` (counted from 0) has failed; at least a tenth of the bound."""
        bound = min(self.cap, self.base * 2.0 ** min(attempt, 30))
        return float(bound * (0.1 + 0.9 * self.jitter()))


class Retries:
    """One series of retries under a policy: counts attempts, waits, and checks the budget."""

    def __init__(self, policy: RetryPolicy, clock: Clock, stopped: threading.Event) -> None:
        self._policy = policy
        self._clock = clock
        self._stopped = stopped
        self.reset()

    def reset(self) -> None:
        """Start a new series; call it after a success."""
        self.attempts = 0
        self._deadline = self._clock.monotonic() + self._policy.budget

    def pause(self) -> bool:
        """Wait before the next attempt; False if the budget is used up or a stop was requested."""
        delay = self._policy.delay(self.attempts)
        self.attempts += 1
        if self._clock.monotonic() + delay > self._deadline:
            return False
        return not self._clock.wait(self._stopped, delay)
