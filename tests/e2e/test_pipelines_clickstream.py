"""The clickstream on real servers: 50,000 clicks, users that change between them, row by row as the model says."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.clickstream import CLICKSTREAM, PERSONAL, STRANGER, USERS, check_everything, clicks, user, values
from tests.e2e.feeding import House, until
from tests.e2e.model import bag, folded

CLICKS = int(os.environ.get("DS_TEST_CLICKS", "50000"))
PHASES = 5


@pytest.fixture(scope="module", autouse=True)
def running(house: House) -> Iterator[None]:
    house.start(*CLICKSTREAM)
    yield
    house.stop(*CLICKSTREAM)  # ten queries that wait for data take a quarter of a processor, the broker's part included


def test_every_relation_holds_what_the_model_says(house: House) -> None:
    chance = random.Random(7)
    before = len(values(house, "clicks"))
    house.put("users", [user(name, 0) for name in USERS], key="userid")
    for phase in range(PHASES):
        house.send("clicks", clicks(chance, CLICKS // PHASES, phase * CLICKS))
        house.put("users", [user(name, phase + 1) for name in chance.sample(USERS, 15)], key="userid")
        gone = chance.sample(USERS, 3)
        house.put("users", [None] * 3, key="userid", keys=gone)
    house.send("clicks", clicks(chance, 100, PHASES * CLICKS))
    stored = len(values(house, "clicks"))
    assert stored == before + CLICKS + 100
    check_everything(house)
    found = values(house, "user_clicks")
    assert 0.5 * stored < len(found) < stored
    assert STRANGER not in {row["uid"] for row in found}


def test_personal_data_stays_where_it_was(house: House) -> None:
    names = {"name", "email", "contactinfo"}
    for topic in ("user_clicks", "url_region_click_count"):
        records = house.records(topic)
        assert records
        assert not any(PERSONAL in json.dumps(one.value) or PERSONAL in str(one.key) for one in records)
        assert not any(names & set(one.value or {}) for one in records)


def test_a_topic_is_configured_as_its_leftmost_source(house: House) -> None:
    partitions = house.producer.list_topics("user_clicks", 30).topics["user_clicks"].partitions
    assert len(partitions) == 2


def test_a_click_is_counted_within_a_second(house: House) -> None:
    """Measured exactly in the benchmark; here on a machine that may be busy with other things, by as much as it is."""
    took: list[float] = []
    for number in range(8):
        if took and min(took) < 1.0:
            break
        url = f"./latency{number}-{time.time_ns()}"
        sent = time.monotonic()
        house.send("clicks", [clicks(random.Random(number), 1, 0)[0] | {"url": url}])
        until(lambda: house.query(f"SELECT visits FROM url_visits WHERE url = '{url}'"), "the click counts", 60, 0.02)  # noqa: B023
        took.append((time.monotonic() - sent) / busy())
    assert min(took) < 1.0, took


def busy() -> float:
    """How many times longer than alone something takes now that needs the processor."""
    wall, used = time.perf_counter(), time.thread_time()
    while time.thread_time() - used < 0.1:
        pass
    return max(1.0, (time.perf_counter() - wall) / 0.1)


def test_asking_again_adopts_what_runs(house: House) -> None:
    engine, incarnations = house.python(), {s.name: s.incarnation for s in house.control.statuses(CLICKSTREAM)}
    outcomes = {one.outcome for one in house.control.ensure(house.project, CLICKSTREAM, "ensure", "somebody else")}
    assert outcomes == {"adopted"}
    assert house.control.ensure_engine().pid == engine
    assert {s.name: s.incarnation for s in house.control.statuses(CLICKSTREAM)} == incarnations


def test_the_warehouse_gets_what_changed_since_the_last_load(house: House) -> None:
    def loaded() -> list[dict[str, Any]]:
        return house.table("SELECT click_url, user_regionid, url_region_click_count FROM region_clicks")

    first = house.load("region_clicks")
    assert first.state == "FINISHED", first
    assert bag(loaded()) == bag(folded(house.records("url_region_click_count")))
    assert first.rows > 0
    house.put("users", [user(name, 99) for name in USERS], key="userid")
    house.send("clicks", clicks(random.Random(8), 500, 0))
    check_everything(house)
    second = house.load("region_clicks")
    assert second.state == "FINISHED", second
    assert bag(loaded()) == bag(folded(house.records("url_region_click_count")))
    assert house.load("region_clicks").rows == 0
