"""kill -9 of everything while data flows: nothing is lost, nothing is doubled, never two engines."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from ds_dagster.runtime.control import Control
from ds_dagster.settings import load_settings
from tests.e2e.clickstream import USERS, check_everything, clicks, user, values
from tests.e2e.feeding import WAIT, House, Stream, is_dead, until
from tests.e2e.model import difference

NO_BROKER = "may not be available"
VIEWS = ("url_visits",)
JOBS = ("desktop_clicks", "url_device_click_count", "user_clicks", "url_region_click_count", *VIEWS)
BATCH_HIT = ("user_clicks", "desktop_clicks", "url_visits")
"""Jobs that are hit in the middle of a batch: temporal join into Kafka, copy into Kafka, count into a view."""


@pytest.fixture(autouse=True)
def running(house: House) -> None:
    house.start(*JOBS)
    house.put("users", [user(name, 0) for name in USERS], key="userid")


@pytest.fixture
def flow(house: House) -> Iterator[Stream]:
    """Clicks and changing users, all the time."""
    chance = random.Random(11)

    def send(number: int) -> None:
        house.send("clicks", clicks(chance, 50, 50 * number))
        if number % 4 == 0:
            house.put("users", [user(name, number) for name in chance.sample(USERS, 3)], key="userid")
        if number % 20 == 10:
            house.put("users", [None], key="userid", keys=[chance.choice(USERS)])

    stream = Stream(send, pause=0.6)
    with stream:
        yield stream


def batches(house: House, job: str) -> tuple[int, int]:
    """The last batch that was begun and the last that was finished, by the checkpoint."""
    (root,) = (house.state / "checkpoints").glob(f"*/{job}/v*")
    found = [[int(p.name) for p in (root / kind).glob("*") if p.name.isdecimal()] for kind in ("offsets", "commits")]
    begun, finished = (max(numbers, default=-1) for numbers in found)
    return begun, finished


def is_in_batch(house: House, job: str, after: int) -> bool:
    begun, finished = batches(house, job)
    return begun > finished and begun > after


@pytest.mark.parametrize("jobs", [BATCH_HIT[:1], pytest.param(BATCH_HIT, marks=pytest.mark.slow)], ids=["once", "each"])
def test_the_engine_is_killed_in_the_middle_of_a_batch(house: House, flow: Stream, jobs: Sequence[str]) -> None:
    took = []
    for job in jobs:
        before = batches(house, job)[1]
        until(lambda: is_in_batch(house, job, before), f"a batch of {job} runs", pause=0.002)  # noqa: B023
        house.kill_engine()
        took.append(house.recover())
        house.until_running(JOBS)
        until(lambda: batches(house, job)[1] > before + 1, f"{job} goes on")  # noqa: B023
    flow.end()
    check_everything(house, VIEWS)
    print(f"engine back after {took} s")


@pytest.mark.slow
def test_only_its_python_is_killed(house: House, flow: Stream) -> None:
    """However many notice it at once, one engine is started, and only when the old one's JVM is gone."""
    log = house.control.places.engine_log
    begun = log.read_text().count(" begins, ")
    python, jvm = house.python(), house.jvm()
    os.kill(python, signal.SIGKILL)
    found: list[int | None] = []

    def notice() -> None:
        control = Control.open(load_settings(house.root))

        def another() -> int | None:
            status = control.ensure_engine(WAIT)
            return status.pid if status.state == "RUNNING" and status.pid != python else None

        found.append(until(another, "another engine"))

    starters = [threading.Thread(target=notice) for _ in range(3)]
    for starter in starters:
        starter.start()
    until(lambda: house.python() not in (0, python), "another engine", pause=0.005)
    assert is_dead(jvm), "two engines"
    for starter in starters:
        starter.join(WAIT)
    assert set(found) == {house.python()}
    assert log.read_text().count(" begins, ") == begun + 1
    house.until_running(JOBS)
    flow.end()
    check_everything(house, VIEWS)


def test_the_broker_is_killed(house: House, flow: Stream) -> None:
    output = house.control.places.engine_output
    before = output.read_text().count(NO_BROKER)
    house.kill_server("kafka")
    until(lambda: output.read_text().count(NO_BROKER) > before + 5, "the engine misses the broker")
    house.up("kafka")
    house.until_running(JOBS)
    flow.end()
    check_everything(house, VIEWS)


@pytest.mark.slow
def test_the_warehouse_and_the_engine_are_killed_during_a_load(house: House) -> None:
    def loaded() -> list[dict[str, object]]:
        return house.table("SELECT uid, user_regionid, click_time, click_url, device_type FROM joined_clicks")

    def wanted() -> list[dict[str, object]]:
        names = ("uid", "user_regionid", "click_time", "click_url", "device_type")
        return [{name: row[name] for name in names} for row in values(house, "user_clicks")]

    def begun() -> bool:
        found = list((house.state / "checkpoints").glob("*/joined_clicks/v*"))
        return bool(found) and is_in_batch(house, "joined_clicks", -1)

    asked = house.control.request_run(house.project, "joined_clicks", "tests")
    until(begun, "the load's batch runs", pause=0.002)
    house.kill_server("postgres")
    until(lambda: house.control.status("joined_clicks").state in ("BACKING_OFF", "FAILED"), "the load is told")
    house.up("postgres")
    result = house.control.wait_run(asked, WAIT)
    assert result.state == "FINISHED", result
    assert not difference(loaded(), wanted())

    house.send("clicks", clicks(random.Random(12), 5000, 0))
    check_everything(house, VIEWS)
    before = batches(house, "joined_clicks")[1]
    asked = house.control.request_run(house.project, "joined_clicks", "tests")
    until(lambda: is_in_batch(house, "joined_clicks", before), "the next load's batch runs", pause=0.002)
    house.kill_engine()
    house.recover()
    result = house.control.wait_run(asked, WAIT)
    assert result.state == "FINISHED", result
    assert not difference(loaded(), wanted())
