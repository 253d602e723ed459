"""Growing, jittered, bounded delays between starts; randomness comes in as an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before a job is started again.

    Attributes:
        base, factor, limit: the n-th delay is ``base * factor ** (n - 1)`` seconds, at most ``limit``.
        jitter: share of the delay that is random (0.5: between half and all of it), so that jobs which failed together
            do not start together.
        healthy: seconds of running after which the count of attempts restarts at one.
    """

    base: float = 1.0
    factor: float = 2.0
    limit: float = 60.0
    jitter: float = 0.5
    healthy: float = 120.0

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds before start number ``attempt`` (1 = first retry); ``random`` yields numbers in [0, 1)."""
        whole = min(self.limit, self.base * self.factor ** min(attempt - 1, 32))
        return whole * (1.0 - self.jitter * random())

    def is_healthy(self, running_seconds: float) -> bool:
        """Whether a job that has run for this long counts as recovered."""
        return running_seconds >= self.healthy
