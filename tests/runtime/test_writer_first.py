"""A job that reads what another one makes: it waits for it, never makes it, never fails for it."""

from __future__ import annotations

import pytest

from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.deciding.round import WAIT_SECONDS
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from tests.runtime.fakes import project, query
from tests.runtime.test_reconcile import House, house

__all__ = ["house"]
FAR = 3600.0


def chain(house: House) -> LoadedProject:
    return project(house.settings, query("a", "t"), query("b", "a"), query("c", "b"))


def waits(house: House, name: str, writer: str) -> None:
    """The host finds that the topic of the writer is not there."""
    house.host.says(name, "failed", failure=error("WAITS_FOR_WRITER", writer=writer, entity=writer, store="s"))
    house.tick()


@pytest.fixture
def waiting(house: House) -> House:
    house.control.ensure(chain(house), ["a", "b", "c"], "ensure", "ann")
    house.tick()
    waits(house, "b", "a")
    waits(house, "c", "b")
    return house


def test_the_spec_knows_who_makes_what_it_reads(house: House) -> None:
    loaded = chain(house)
    specs = {name: job_spec(loaded, found) for name, found in loaded.queries.items()}
    read = {name: found.scans[0].relation for name, found in loaded.queries.items()}
    assert {name: specs[name].writers_of(read[name]) for name in specs} == {"a": "", "b": "a", "c": "b"}
    assert JobSpec.from_json(specs["b"].to_json()) == specs["b"]


def test_a_reader_waits_for_its_writer_by_name(waiting: House) -> None:
    status = waiting.control.status("b")
    assert (status.state, status.condition, status.attempts) == ("WAITING", "WAITS_FOR_WRITER", 0)
    assert status.message == "waits for a, which makes a in store s"


def test_a_chain_comes_up_link_by_link_without_being_asked_again(waiting: House) -> None:
    waiting.tick(times=20)
    assert [waiting.state(name) for name in "abc"] == ["STARTING", "WAITING", "WAITING"]
    waiting.host.works("a")
    waiting.tick()
    assert [waiting.state(name) for name in "abc"] == ["RUNNING", "STARTING", "WAITING"]
    waiting.host.works("b")
    waiting.tick()
    assert [waiting.state(name) for name in "abc"] == ["RUNNING", "RUNNING", "STARTING"]
    waiting.host.works("c")
    waiting.tick()
    assert waiting.control.status("c").condition == ""


def test_a_writer_that_came_up_before_the_reader_was_seen_to_wait_is_not_missed(house: House) -> None:
    house.control.ensure(chain(house), ["a", "b"], "ensure", "ann")
    house.tick()
    house.host.works("a")
    waits(house, "b", "a")
    house.tick()
    assert house.state("b") == "STARTING"


def test_a_topic_that_is_gone_under_a_running_writer_is_looked_for_now_and_then(waiting: House) -> None:
    waiting.host.works("a")
    waiting.tick()
    waiting.tick()
    starts = len(waiting.host.orders)
    waits(waiting, "b", "a")
    waiting.tick(times=20)
    assert len(waiting.host.orders) == starts
    waiting.tick(WAIT_SECONDS)
    assert len(waiting.host.orders) > starts


def test_waiting_is_never_a_failure_however_long_it_takes(waiting: House) -> None:
    for _ in range(50):
        waiting.tick(WAIT_SECONDS + 1)
        waits(waiting, "b", "a")
    assert waiting.state("b") == "WAITING"


def test_one_that_waits_is_stopped_when_asked(waiting: House) -> None:
    waiting.control.stop(["b"], "ann")
    waiting.tick()
    assert waiting.state("b") == "STOPPED"


def test_the_next_engine_starts_one_that_waits(waiting: House) -> None:
    waiting.begin()
    waiting.tick()
    assert waiting.state("b") == "STARTING"


def test_a_run_waits_for_as_long_as_it_may_wait_for_its_sources(house: House) -> None:
    loaded = project(house.settings, query("a", "t"), query("load", "a", refresh="incremental"))
    request = house.control.request_run(loaded, "load", catch_up=FAR)
    house.tick()
    waits(house, "load", "a")
    assert house.state("load") == "WAITING"
    house.clock.advance(FAR)
    house.tick()
    for _ in range(10):
        if "load" in house.host.seen:
            waits(house, "load", "a")
        house.tick(120.0)
    result = house.control.wait_run(request)
    assert (result.state, result.condition) == ("FAILED", "WAITS_FOR_WRITER")
