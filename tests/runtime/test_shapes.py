"""Shapes of sources in the journal: each version once, over restarts; and the start that follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ds_dagster.errors import error
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.host import SourceShape
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock
from tests.runtime.test_reconcile import House

KEY = "r/clicks-value"


@pytest.fixture
def house(control: Control, clock: FakeClock, settings: Settings) -> Iterator[House]:
    made = House(control, clock, settings)
    yield made
    made.lock.release()


def changed(version: str, before: str) -> SourceShape:
    params = {"registry": "r", "subject": "clicks-value", "version": version, "difference": "url is gone"}
    more = {"relation": "db.public.clicks", "columns": "url", "fix": "remove it"}
    return SourceShape(KEY, version, before=before, change=error("SOURCE_SCHEMA_CHANGED", **params, **more))


def told(house: House) -> list[tuple[str, str, str, str]]:
    """(from, to, condition, hint) of lines about shapes, oldest first."""
    lines = [t for t in reversed(house.control.transitions("a", 50)) if t.kind == "shape"]
    return [(t.source, t.target, t.condition, t.actor) for t in lines]


def finds(house: House, *shapes: SourceShape, outdated: str = "") -> None:
    house.host.says("a", "running", shapes=shapes, outdated=outdated)
    house.tick(times=3)


def test_a_version_is_recorded_once(house: House) -> None:
    house.run()
    finds(house, SourceShape(KEY, "1", before="1"))
    assert told(house) == [("", "1", "", KEY)]
    finds(house, changed("2", "1"))
    finds(house, changed("2", "1"))
    expected = [("", "1", "", KEY), ("1", "2", "SOURCE_SCHEMA_CHANGED", KEY)]
    assert told(house) == expected
    line = house.control.transitions("a", 1)[0]
    assert line.message == (
        "clicks-value has version 2 in the schema registry r: url is gone; it affects url of db.public.clicks"
    )
    assert house.state() == "RUNNING"
    house.begin()
    house.tick()
    house.host.works("a")
    finds(house, SourceShape(KEY, "2", before="2"))
    assert told(house) == expected, "another engine knows it too"


def test_what_the_history_knows_goes_with_the_order(house: House) -> None:
    house.run()
    assert dict(house.host.orders[-1].shapes) == {}
    table = SourceShape("pg/public.orders", "ab12", '{"id": "bigint"}', before="ab12")
    finds(house, SourceShape(KEY, "1", before="1"), table)
    house.want(action="restart")
    house.tick(times=3)
    known = {key: (shape.version, shape.text) for key, shape in house.host.orders[-1].shapes.items()}
    assert known == {KEY: ("1", ""), "pg/public.orders": ("ab12", '{"id": "bigint"}')}


def test_a_query_that_reads_by_an_old_version_starts_again_after_its_batch(house: House) -> None:
    house.run()
    finds(house, changed("2", "1"), outdated="version 2 of clicks-value changes how url is read")
    assert len(house.host.orders) == 2
    assert house.host.stops == ["a"]
    first, second = house.host.orders
    assert (second.checkpoint_version, second.progressed) == (first.checkpoint_version, True)
    house.host.works("a")
    house.tick(times=5)
    assert house.history() == ["STARTING", "RUNNING", "STOPPING", "STOPPED", "STARTING", "RUNNING"]
    stop = next(t for t in house.control.transitions("a", 50) if t.target == "STOPPING")
    assert (stop.reason, stop.condition) == ("version 2 of clicks-value changes how url is read", "")
    assert house.control.status("a").attempts == 0, "it is no failure"


def test_a_query_that_is_stopped_does_not_start_again(house: House) -> None:
    house.run()
    house.control.stop(["a"], "ann")
    house.host.says("a", "running", outdated="version 2 of clicks-value changes how url is read")
    house.tick(times=5)
    assert house.state() == "STOPPED"
    assert len(house.host.orders) == 1


def test_the_log_of_the_job_names_the_version(house: House) -> None:
    house.run()
    finds(house, changed("2", "1"))
    log = house.control.log_path("a").read_text(encoding="utf-8")
    assert f"{KEY} has version 2 [SOURCE_SCHEMA_CHANGED] clicks-value has version 2" in log
