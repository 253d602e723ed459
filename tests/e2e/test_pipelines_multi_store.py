"""The multi-store tutorial on real servers: a copy from Kinesis to Kafka, a join of both back into Kinesis."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.e2e.feeding import House, until
from tests.e2e.model import difference, interval_join, page_view

JOBS = ("pageviews_kafka", "pageviews_enriched", "wide_copy")
USERS = [f"User_{number}" for number in range(30)]
MINUTES_5 = 5 * 60_000


def views(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {"viewtime": 1000 + n, "userid": chance.choice((*USERS, "User_never")), "pageid": f"Page_{n % 17}"}
        for n in range(count)
    ]


def registration(name: str) -> dict[str, Any]:
    place = {"phone": "1", "city": "c", "state": "s", "zipcode": "z"}
    row = {"registertime": 1, "userid": name, "regionid": f"Region_{len(name)}", "gender": "OTHER", "interests": ["a"]}
    return row | {"contactinfo": place}


@pytest.fixture(scope="module", autouse=True)
def told(house: House) -> None:
    house.start(*JOBS)
    chance = random.Random(3)
    house.put("pageviews", views(chance, 600), key="userid")
    house.send("ds_users", [registration(name) for name in USERS[:20]])
    house.put("pageviews", views(chance, 600), key="userid")
    house.send("ds_users", [registration(name) for name in USERS[10:]])
    house.put("wide", [{"n": n, "userid": f"u{n}"} for n in range(200)], key="userid")


def test_the_copy_equals_its_source(house: House) -> None:
    source = [one.value for one in house.stream_records("pageviews") if one.value is not None]
    assert len(source) == 1200
    until(lambda: len(house.records("pageviews_kafka")) >= len(source), "all views are copied")
    assert not difference([one.value for one in house.records("pageviews_kafka") if one.value], source)


def test_views_meet_registrations_of_the_same_minutes(house: House) -> None:
    left = [(one.at, one.value) for one in house.stream_records("pageviews") if one.value]
    right = [(one.at, one.value) for one in house.records("ds_users") if one.value]
    wanted = list(interval_join(left, right, "userid", MINUTES_5, page_view))
    assert len(wanted) > 1200
    found = lambda: [one.value for one in house.stream_records("pageviews_enriched") if one.value]  # noqa: E731
    until(lambda: len(found()) >= len(wanted), "all pairs are there", pause=0.5)
    assert not difference(found(), wanted)


def missing(house: House, rows: int) -> str:
    """Which rows of ``wide`` are not in its copy, from which shard and when they came; and how far the query is."""
    copied = {one.value["n"] for one in house.stream_records("wide_copy") if one.value}
    late = [(one.value["n"], one.partition, one.at) for one in house.stream_records("wide") if one.value]
    status = house.control.status("wide_copy")
    return (
        f"{len(copied)} of {rows} rows are copied; missing (n, shard, milliseconds): "
        f"{[row for row in late if row[0] not in copied][:20]} of {len(late)}; {status}"
    )


def test_shards_are_those_of_the_leftmost_source(house: House) -> None:
    assert len(house.shards("pageviews_enriched")) == len(house.shards("pageviews")) == 1
    assert len(house.shards("wide_copy")) == len(house.shards("wide")) == 2
    rows = [{"n": n, "userid": f"u{n}"} for n in range(200)]
    until(lambda: len(house.stream_records("wide_copy")) >= len(rows), lambda: missing(house, len(rows)))
    assert not difference([one.value for one in house.stream_records("wide_copy") if one.value], rows)
    assert {one.partition for one in house.stream_records("wide_copy")} == set(house.shards("wide_copy"))
    house.stop(*JOBS)
