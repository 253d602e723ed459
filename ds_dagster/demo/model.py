"""A model of the example project: the rows that its queries must make of the fed records, computed in plain Python
without this package's engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds_dagster.demo.data import Out, Phase, Row

GROUPINGS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "url_device_click_count": (("url", "device_id"), "click_count"),
    "url_visits": (("url",), "visits"),
    "url_device_visits": (("url", "device_id"), "visits"),
    "user_device_visits": (("userid", "device_id"), "visits"),
    "user_url_device_visits": (("userid", "url", "device_id"), "visits"),
}
"""Counts of clicks: relation → (grouped by, name of the count)."""
USER_CLICK: Mapping[str, tuple[str, str]] = {
    "user_registertime": ("user", "registertime"),
    "uid": ("user", "userid"),
    "user_regionid": ("user", "regionid"),
    "user_gender": ("user", "gender"),
    "user_interests": ("user", "interests"),
    "click_time": ("click", "event_time"),
    "device_type": ("click", "device_id"),
    "click_url": ("click", "url"),
    "click_location": ("click", "ip"),
}
KEPT_PAGE_VIEW = ("viewtime", "userid", "pageid")


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that a relation must hold, in any order, duplicates counted."""

    relation: str
    rows: tuple[Row, ...]


Timed = tuple[int, Row]
"""A record's own timestamp in milliseconds, and its columns."""
WITHIN_MILLIS = 300_000


def expected(phases: Iterable[Phase]) -> tuple[Expected, ...]:
    """Expected rows of all relations of the example that a query fills, except ``pageviews_enriched``
    (:func:`enriched`)."""
    clicks: list[Row] = []
    joined: list[Row] = []
    views: list[Row] = []
    users: dict[str, Row] = {}
    for phase in phases:
        _apply(phase.changes, users)
        for event in phase.events:
            row = event.value or {}
            (clicks if event.entity == "clicks" else views).append(row)
            user = users.get(row["userid"]) if event.entity == "clicks" else None
            if user is not None:
                joined.append(_user_click(row, user))
    regions = _counted(joined, ("click_url", "user_regionid"), "url_region_click_count")
    return (
        Expected("desktop_clicks", tuple(row for row in clicks if row["device_id"] == "desktop")),
        *(Expected(name, _counted(clicks, by, count)) for name, (by, count) in GROUPINGS.items()),
        Expected("user_clicks", tuple(joined)),
        Expected("url_region_click_count", regions),
        Expected("pageviews_kafka", tuple(views)),
        Expected("region_clicks", regions),
    )


def _apply(changes: Sequence[Out], users: dict[str, Row]) -> None:
    for change in changes:
        if change.entity != "users":
            continue
        if change.value is None:
            users.pop(str((change.key or {})["userid"]), None)
        else:
            users[change.value["userid"]] = change.value


def _user_click(click: Row, user: Row) -> Row:
    sides: Mapping[str, Row] = {"click": click, "user": user}
    return {name: sides[side][column] for name, (side, column) in USER_CLICK.items()}


def _counted(rows: Iterable[Row], by: Sequence[str], count: str) -> tuple[Row, ...]:
    counts = Counter(tuple(row[name] for name in by) for row in rows)
    return tuple({**dict(zip(by, key, strict=True)), count: number} for key, number in counts.items())


def enriched(views: Iterable[Timed], registered: Iterable[Timed]) -> Expected:
    """Expected rows of ``pageviews_enriched``: page views with registrations at most five minutes before or after, by
    the timestamps of the servers (the duration of feeding is not known in advance)."""
    by_user: dict[str, list[Timed]] = {}
    for at, row in registered:
        by_user.setdefault(row["userid"], []).append((at, row))
    rows = []
    for at, view in views:
        for then, row in by_user.get(view["userid"], ()):
            if abs(at - then) <= WITHIN_MILLIS:
                passed: dict[str, Any] = {name: view[name] for name in KEPT_PAGE_VIEW}
                rows.append(passed | {"regionid": row["regionid"], "gender": row["gender"]})
    return Expected("pageviews_enriched", tuple(rows))
