"""Time as an argument: code that waits or dates takes a clock, so that tests need no sleeping."""

from __future__ import annotations

import re
import threading
import time
from typing import Protocol

_DURATION = re.compile(
    r"\s*(\d+)\s*(?:(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:(?:ou)?rs?)?|(d)(?:ays?)?)\s*", re.IGNORECASE
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
    return None if match is None else int(match[1]) * _SECONDS[match[match.lastindex or 0].lower()]
