"""Time as an argument: code that waits or dates takes a clock, so that tests need no sleeping."""

from __future__ import annotations

import threading
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

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait; returns early with True as soon as ``stopped`` is set."""


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

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait unless stopped."""
        return stopped.wait(seconds)
