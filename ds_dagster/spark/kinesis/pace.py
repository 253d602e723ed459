"""How often one shard is asked. AWS allows five reads a second and shard, over all who read it: jobs that read the same
stream share them by backing off, as TCP does: faster by steps, slower by halves."""

from __future__ import annotations

from collections.abc import Callable

SLOWER = 2.0
FASTER_SECONDS = 0.02
FIRST_SECONDS = 0.2
MOST_SECONDS = 5.0
"""A shard gives 2 MB a second: a full answer of 10 MB is paid for in five."""


class Pace:
    """The pause between two requests to a shard.

    Args:
        poll_seconds: least pause at the shard's end.
        draw: a number in [0, 1), spreads the readers of one shard.
    """

    def __init__(self, poll_seconds: float, draw: Callable[[], float]) -> None:
        self._poll = poll_seconds
        self._draw = draw
        self.seconds = 0.0

    def after(self, *, throttled: bool, at_end: bool) -> float:
        """Seconds to wait after an answer.

        Args:
            throttled: Kinesis had said "slow down" before it answered.
            at_end: there was nothing further to read.
        """
        if throttled:
            self.seconds = min(MOST_SECONDS, max(FIRST_SECONDS, self.seconds * SLOWER))
        else:
            self.seconds = max(0.0, self.seconds - FASTER_SECONDS)
        pause = max(self.seconds, self._poll if at_end else 0.0)
        return pause * (0.8 + 0.4 * self._draw()) if self.seconds else pause
