"""``@partitions`` of a comment: the time ranges (Dagster partitions) by which a table's rows are computed again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal, cast

from ds_dagster.clock import duration_seconds
from ds_dagster.sql.statements import Comment

PARTITIONS_TAG = "partitions"
Every = Literal["hourly", "daily", "weekly", "monthly"]
_PARTITIONS = re.compile(
    r"(?P<every>hourly|daily|weekly|monthly)\s+from\s+(?P<begin>\d{4}-\d\d-\d\d)"
    r"(?:\s+by\s+(?P<column>\S+))?(?:\s+lateness\s+(?P<lateness>\d+\s*[smhd]))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Partitions:
    """``@partitions daily from 2024-05-01 by ordered_at lateness 1h``.

    Attributes:
        every: length of a partition; weeks begin at the weekday of ``begin``.
        begin: first day, in UTC; for ``monthly`` the first day of a month.
        column: column of the table; empty for its only column of a TIMESTAMP type.
        lateness: largest difference, in seconds, between a record's own time and the column; None if unknown.
    """

    every: Every
    begin: date
    column: str = ""
    lateness: int | None = None


def partitions_of(text: str) -> Partitions | None:
    """The value of ``@partitions``; None if it is not valid."""
    match = _PARTITIONS.fullmatch(text.strip())
    if match is None:
        return None
    try:
        begin = date.fromisoformat(match["begin"])
    except ValueError:  # the 30th of February
        return None
    every = cast("Every", match["every"].lower())
    if every == "monthly" and begin.day != 1:
        return None
    late = match["lateness"]
    return Partitions(every, begin, match["column"] or "", duration_seconds(late) if late else None)


def partitions_in(comment: Comment) -> Partitions | None:
    """The ``@partitions`` tag of a comment; None if there is none, an invalid one, or several."""
    values = [value for name, value in comment.tags if name == PARTITIONS_TAG]
    return partitions_of(values[0]) if len(values) == 1 else None
