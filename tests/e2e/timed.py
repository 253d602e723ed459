"""Clicks, users and orders with event times of their own: the same story told at any time of history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from tests.e2e.feeding import House, until
from tests.e2e.model import Versions, folded, interval_join, temporal_join, tumbled

MINUTE = 60_000
BOUND = 10_000
"""How far rows may be behind one another: the default of times in columns."""
USERS = [f"u{number}" for number in range(6)]
LATE_USER = "late"
"""Has versions, clicks and no orders."""
FILLER = "filler"
"""Moves time; clicks without a version, orders without clicks."""
END = 5 * MINUTE
CLOSED = 10 * MINUTE


@dataclass
class Story:
    """One telling: relations ``{prefix}_…``, times from ``base`` (epoch milliseconds, a whole minute)."""

    house: House
    prefix: str
    base: int

    def __post_init__(self) -> None:
        self.chance = random.Random(5)
        self.clicks: list[dict[str, Any]] = []
        self.users: list[dict[str, Any]] = []
        self.orders: list[dict[str, Any]] = []

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}_{name}" for name in ("joined", "minutes", "near"))

    def _click(self, at: int, user: str, url: str) -> dict[str, Any]:
        row = {"event_time": self.base + at, "url": url, "userid": user, "n": len(self.clicks)}
        self.clicks.append(row)
        return row

    def _version(self, at: int, user: str, region: str) -> dict[str, Any]:
        row = {"changed": self.base + at, "userid": user, "regionid": region}
        self.users.append(row)
        return row

    def _order(self, at: int, user: str) -> dict[str, Any]:
        row = {"placed": self.base + at, "userid": user, "amount": len(self.orders)}
        self.orders.append(row)
        return row

    def _send_clicks(self, rows: list[dict[str, Any]]) -> None:
        for partition in (0, 1):
            self.house.send(f"{self.prefix}_clicks", rows[partition::2], partition=partition)

    def _put_users(self, rows: list[dict[str, Any]]) -> None:
        self.house.put(f"{self.prefix}_users", rows, key="userid")

    def tell(self) -> None:
        """Five minutes; rows out of order by less than the bound, versions between the clicks."""
        first = [self._version(0, user, "r0") for user in (*USERS, LATE_USER)]
        later = [
            self._version(minute * MINUTE + 1000 * number, user, f"r{minute}")
            for minute in range(1, 4)
            for number, user in enumerate(USERS)
        ]
        self._put_users(first + later)
        clicks = [self._click(at, self.chance.choice(USERS), f"./p{at % 3}") for at in range(0, END, 100)]
        clicks.sort(key=lambda row: row["event_time"] + self.chance.randrange(BOUND - 2000))
        orders = [self._order(at, self.chance.choice(USERS)) for at in range(500, END, 1500)]
        step = len(clicks) // 5
        for part in range(5):
            self._send_clicks(clicks[part * step : (part + 1) * step])
            until_placed = self.base + (part + 1) * MINUTE
            now = [row for row in orders if until_placed - MINUTE <= row["placed"] < until_placed]
            self.house.send(f"{self.prefix}_orders", now)

    def until_time_has_passed(self) -> None:
        """The windows that the first part closes are there: four of them are told by time."""
        closed = self.base + 4 * MINUTE
        until(
            lambda: any(row["window_end"] == closed for row in self.minutes()),
            f"the fourth window of {self.prefix} is closed",
        )

    def tell_late(self) -> None:
        """A version and clicks that come after their time, some far behind the bound."""
        self._put_users([self._version(2 * MINUTE, LATE_USER, "changed late")])
        self._send_clicks(
            [
                self._click(MINUTE // 2, LATE_USER, "./too-late"),
                self._click(MINUTE // 2 + 1, LATE_USER, "./too-late"),
                self._click(3 * MINUTE, LATE_USER, "./too-late"),
                self._click(3 * MINUTE + 1, LATE_USER, "./too-late"),
                self._click(END - 5000, LATE_USER, "./within"),
                self._click(END - 4000, LATE_USER, "./within"),
            ]
        )

    def close(self, *, silent: bool) -> None:
        """Time goes on; ``silent``: only clicks tell it, the other inputs say nothing any more."""
        self._send_clicks([self._click(CLOSED, FILLER, "./open"), self._click(CLOSED, FILLER, "./open")])
        if not silent:
            self.house.send(f"{self.prefix}_orders", [self._order(CLOSED, "nobody")])
            self._put_users([self._version(CLOSED, "nobody", "r")])

    # -- what is there -----------------------------------------------------------------------------------------------

    def minutes(self) -> list[dict[str, Any]]:
        names = ("window_start", "window_end")
        rows = folded(self.house.records(f"{self.prefix}_minutes"))
        return [row | {name: millis(row[name]) for name in names} for row in rows]

    def found(self, name: str) -> list[dict[str, Any]]:
        return [one.value for one in self.house.records(f"{self.prefix}_{name}") if one.value is not None]

    # -- what must be there ------------------------------------------------------------------------------------------

    def wanted_minutes(self) -> list[dict[str, Any]]:
        rows = [(row["event_time"], row) for row in self.clicks if row["url"] not in ("./too-late", "./open")]
        return tumbled(rows, MINUTE, "url", "visits")

    def wanted_joined(self) -> list[dict[str, Any]]:
        versions = Versions((row["changed"], row["userid"], row) for row in self.users)
        # the first late clicks came when the late version was known, so every click sees all versions
        clicks = ((row["event_time"], row) for row in self.clicks)
        return list(temporal_join(clicks, versions, "userid", _joined))

    def wanted_near(self) -> list[dict[str, Any]]:
        clicks = [(row["event_time"], row) for row in self.clicks]
        orders = [(row["placed"], row) for row in self.orders]
        return list(interval_join(clicks, orders, "userid", 30_000, _near))


def _joined(click: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    kept = {name: click[name] for name in ("n", "url", "userid")}
    return kept | {"regionid": user["regionid"], "changed": user["changed"]}


def _near(click: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return {"n": click["n"], "userid": click["userid"], "amount": order["amount"]}


def millis(text: str) -> int:
    """Epoch milliseconds of a timestamp as the sinks write it."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round((found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def shifted(rows: list[dict[str, Any]], by: int) -> Iterator[dict[str, Any]]:
    """The same rows with their times moved."""
    times = ("changed", "window_start", "window_end")
    for row in rows:
        yield {name: value - by if name in times else value for name, value in row.items()}
