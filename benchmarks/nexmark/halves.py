"""The rate of a run's second half, in which neither side starts any more."""

from __future__ import annotations

from collections.abc import Iterable

Mark = tuple[float, int]
"""Seconds since the start of a run, and how many records it had read by then."""


def second_half(marks: Iterable[Mark], rows: int, seconds: float) -> int | None:
    """Records a second from the first mark at which half of them were read, to the end of the run; None if there was
    none.

    Args:
        marks: in order. A plan that reads a topic several times counts its records as often.
        rows: of the input.
        seconds: of the run.
    """
    seen = list(marks)
    if not seen or not rows:
        return None
    scans = max(1, round(seen[-1][1] / rows))
    for at, read in seen:
        left = rows - read / scans
        if 0 < left <= rows / 2 and at < seconds:
            return round(left / (seconds - at))
    return None
