"""Time as an argument: code that waits or dates takes a clock, so that tests need no sleeping."""

from __future__ import annotations

import re
import threading
import time
from typing import Protocol

_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
"""Word of a duration, in lower case → its seconds."""


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


def duration_seconds(text: str) -> int | None:
    """``10m``, ``2 hours``: seconds, None when it is not a duration."""
    match = _DURATION.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    return None if match is None or unit is None else int(match[1]) * unit
