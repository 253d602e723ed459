"""Time as a thing that is passed in: nothing in the runtime reads a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for people, monotonic time for decisions."""

    def now(self) -> float:
        """Seconds since the epoch (UTC); may jump."""

    def monotonic(self) -> float:
        """Seconds that never jump; comparable inside one process only."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
