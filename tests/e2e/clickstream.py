"""The published clickstream: its jobs, made-up records, and every relation against the model."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

from tests.e2e.feeding import House, until
from tests.e2e.model import Versions, counted, difference, folded, temporal_join, user_click

CLICKSTREAM = (
    "desktop_clicks", "url_device_click_count", "user_clicks", "url_region_click_count",
    "url_visits", "url_device_visits", "user_device_visits", "user_url_device_visits",
)  # fmt: skip
USERS = [f"User_{number}" for number in range(40)]
STRANGER = "User_never"
PERSONAL = "marked-personal"
COUNTS = {
    "url_visits": ("url",),
    "url_device_visits": ("url", "device_id"),
    "user_device_visits": ("userid", "device_id"),
    "user_url_device_visits": ("userid", "url", "device_id"),
}


def user(name: str, version: int) -> dict[str, Any]:
    return {
        "registertime": 1_665_780_360_439 + version,
        "name": f"{PERSONAL} name",
        "email": f"{PERSONAL}@example.org",
        "userid": name,
        "regionid": f"Region_{(len(name) + int(name.rpartition('_')[2]) + version) % 9}",
        "gender": ("OTHER", "FEMALE", "MALE")[version % 3],
        "interests": ["News", "Movies"] if version % 2 else [],
        "contactinfo": {"phone": PERSONAL, "city": PERSONAL, "state": "CA", "zipcode": PERSONAL},
    }


def clicks(chance: random.Random, count: int, begin: int) -> list[dict[str, Any]]:
    return [
        {
            "event_time": 1_497_014_222_380 + begin + number,
            "device_id": chance.choice(("desktop", "mobile", "tablet")),
            "url": f"./page{chance.randrange(12)}",
            "userid": chance.choice(USERS) if chance.random() < 0.95 else STRANGER,
            "ip": f"12.12.12.{chance.randrange(256)}",
        }
        for number in range(count)
    ]


def joined(house: House) -> list[dict[str, Any]]:
    changes = [(one.at, str(one.key), one.value) for one in house.stream_records("users")]
    arrived = [(one.at, one.value) for one in house.records("clicks") if one.value is not None]
    return list(temporal_join(arrived, Versions(changes), "userid", user_click))


def values(house: House, topic: str) -> list[dict[str, Any]]:
    return [one.value for one in house.records(topic) if one.value is not None]


def until_same(house: House, topic: str, wanted: Sequence[dict[str, Any]]) -> None:
    """As many records as the model has, and the same ones."""
    until(lambda: len(values(house, topic)) >= len(wanted), f"{topic} holds {len(wanted)} records", pause=0.5)
    assert not difference(values(house, topic), wanted)


def until_folded(house: House, topic: str, wanted: Sequence[dict[str, Any]]) -> None:
    found = lambda: difference(folded(house.records(topic)), wanted)  # noqa: E731
    until(lambda: not found(), f"{topic} is what the model says", pause=0.5)


def check_everything(house: House, views: Collection[str] = tuple(COUNTS)) -> None:
    """Every relation of the clickstream, and these views, against the model."""
    stored = values(house, "clicks")
    assert stored, "there are no clicks: whatever is empty would be right"
    until_same(house, "desktop_clicks", [row for row in stored if row["device_id"] == "desktop"])
    until_folded(house, "url_device_click_count", counted(stored, ("url", "device_id"), "click_count"))
    wanted = joined(house)
    until_same(house, "user_clicks", wanted)
    by_region = counted(
        [{"click_url": row["click_url"], "user_regionid": row["user_regionid"]} for row in wanted],
        ("click_url", "user_regionid"),
        "url_region_click_count",
    )
    until_folded(house, "url_region_click_count", by_region)
    for view in views:
        by = COUNTS[view]
        until(lambda: not difference(house.view(view), counted(stored, by, "visits")), f"{view} is right", pause=0.5)  # noqa: B023
