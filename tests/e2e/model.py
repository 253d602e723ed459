"""What the pipelines must give: plain Python over the records the servers stored. Nothing of the package."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Stamped = tuple[int, Row]
"""A row and its event time in epoch milliseconds."""
Change = tuple[int, str, Row | None]
"""Event time, key, new version or None for a delete; in the order of arrival."""


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows as a bag that can be compared."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def difference(
    found: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]], *, may_be_empty: bool = False
) -> str:
    """Empty when both are the same bag, else some rows that only one of them has. A model that expects no row is
    refused unless that is known: whatever writes nothing would be right."""
    left, right = bag(found), bag(wanted)
    assert right or may_be_empty, "the model expects no row, so that nothing is compared"
    missing, extra = right - left, left - right
    if not missing and not extra:
        return ""
    shown = [f"missing {row}" for row in list(missing)[:5]] + [f"extra {row}" for row in list(extra)[:5]]
    return f"{missing.total()} missing, {extra.total()} extra of {right.total()}: " + "; ".join(shown)


def folded(records: Iterable[Any]) -> list[Row]:
    """The content of a changelog: the last value of every key, without deleted keys."""
    last: dict[str | None, Row | None] = {}
    for record in records:
        last[record.key] = record.value
    return [value for value in last.values() if value is not None]


def counted(rows: Iterable[Row], by: Sequence[str], name: str) -> list[Row]:
    """GROUP BY with count(*)."""
    counts = Counter(tuple(row[column] for column in by) for row in rows)
    return [{**dict(zip(by, key, strict=True)), name: number} for key, number in counts.items()]


class Versions:
    """Versions of every key by event time; of two with one time the later arrival counts."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._by_key: dict[str, list[tuple[int, int, Row | None]]] = {}
        for position, (at, key, row) in enumerate(changes):
            self._by_key.setdefault(key, []).append((at, position, row))
        for found in self._by_key.values():
            found.sort(key=lambda version: version[:2])

    def at(self, key: str | None, moment: int) -> Row | None:
        """The version valid at a moment."""
        found = self._by_key.get(key or "", [])
        place = bisect_right(found, (moment, 1 << 62), key=lambda version: version[:2])
        return found[place - 1][2] if place else None


def temporal_join(
    left: Iterable[Stamped], versions: Versions, key: str, project: Callable[[Row, Row], Row]
) -> Iterator[Row]:
    """INNER: each row with the version valid at its time."""
    for at, row in left:
        version = versions.at(row[key], at)
        if version is not None:
            yield project(row, version)


def interval_join(
    left: Iterable[Stamped], right: Iterable[Stamped], key: str, within: int, project: Callable[[Row, Row], Row]
) -> Iterator[Row]:
    """INNER: all pairs of one key whose times are at most ``within`` milliseconds apart, in both directions."""
    by_key: dict[Any, list[Stamped]] = {}
    for at, row in right:
        by_key.setdefault(row[key], []).append((at, row))
    for at, row in left:
        for other_at, other in by_key.get(row[key], ()) if row[key] is not None else ():
            if abs(at - other_at) <= within:
                yield project(row, other)


def tumbled(rows: Iterable[Stamped], size: int, by: str, name: str) -> list[Row]:
    """Counts by window and one column; windows by their start and end in epoch milliseconds."""
    counts = Counter((at // size * size, row[by]) for at, row in rows)
    return [
        {"window_start": start, "window_end": start + size, by: value, name: number}
        for (start, value), number in counts.items()
    ]


def user_click(click: Row, user: Row) -> Row:
    """The published projection of the temporal join."""
    return {
        "user_registertime": user["registertime"],
        "uid": user["userid"],
        "user_regionid": user["regionid"],
        "user_gender": user["gender"],
        "user_interests": user["interests"],
        "click_time": click["event_time"],
        "device_type": click["device_id"],
        "click_url": click["url"],
        "click_location": click["ip"],
    }


def page_view(view: Row, user: Row) -> Row:
    """The published projection of the interval join."""
    kept = {name: view[name] for name in ("viewtime", "userid", "pageid")}
    return kept | {"regionid": user["regionid"], "gender": user["gender"]}
