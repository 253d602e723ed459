"""How often one shard is read. AWS allows five reads per second and shard, shared by all its readers. Jobs that read
the same stream share them by backing off: the pause doubles at once, and shrinks slowly."""

from __future__ import annotations

from collections.abc import Callable

SLOWER, FASTER = 2.0, 0.95
FIRST_SECONDS = 0.2
MOST_SECONDS = 2.0
"""Longest pause, enough for ten readers of one shard; after a burst the pause is short again within a minute."""
LEAST_SECONDS = 0.02
"""A shorter pause becomes zero."""


class Pace:
    """The pause between two requests to a shard.

    Args:
        poll_seconds: least pause at the shard's end.
        draw: returns a random number in [0, 1), which spreads the readers of one shard.
    """

    def __init__(self, poll_seconds: float, draw: Callable[[], float]) -> None:
        self._poll = poll_seconds
        self._draw = draw
        self.seconds = 0.0

    def after(self, *, throttled: bool, at_end: bool) -> float:
        """Seconds to wait after an answer.

        Args:
            throttled: Kinesis has throttled an attempt before this answer.
            at_end: there was nothing more to read.
        """
        if throttled:
            self.seconds = min(MOST_SECONDS, max(FIRST_SECONDS, self.seconds * SLOWER))
        else:
            self.seconds = self.seconds * FASTER if self.seconds > LEAST_SECONDS else 0.0
        pause = max(self.seconds, self._poll if at_end else 0.0)
        return pause * (0.8 + 0.4 * self._draw()) if self.seconds else pause
