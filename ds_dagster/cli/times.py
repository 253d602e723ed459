"""Types of options for times: durations, moments, and start times."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import click

from ds_dagster.clock import duration_seconds

DURATIONS = "a number and s, m, h or d, as in 1h"
MOMENTS = "2024-05-01 or 2024-05-01T12:00:00+02:00"


class Duration(click.ParamType[int]):
    """A duration such as ``1h``, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The duration in seconds."""
        seconds = value if isinstance(value, int) else duration_seconds(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a valid duration: write {DURATIONS}", param, ctx)
        return seconds


class Moment(click.ParamType[datetime]):
    """A date, or a date and time, in UTC unless an offset is written."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment, with a time zone."""
        moment = value if isinstance(value, datetime) else _moment(str(value))
        if moment is None:
            self.fail(f"{value!r} is not a valid moment: write {MOMENTS}", param, ctx)
        return moment


class Since(click.ParamType[int]):
    """A duration before now, or a moment, as epoch milliseconds; 0 for times before 1970, which no store can look
    up."""

    name = "duration|moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The start in epoch milliseconds."""
        if isinstance(value, int):
            return value
        seconds, moment = duration_seconds(str(value)), _moment(str(value))
        if seconds is not None:
            return max(0, round(time.time() * 1000) - seconds * 1000)
        if moment is None:
            self.fail(f"{value!r} is neither a duration nor a moment: write {DURATIONS}, or {MOMENTS}", param, ctx)
        return max(0, round(moment.timestamp() * 1000))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        return None
