"""Event time in columns: out of order, late, a year ago, with silent inputs, as a backlog that is hours apart."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.feeding import House, until
from tests.e2e.model import difference, folded, tumbled
from tests.e2e.timed import END, MINUTE, Story, millis, shifted

YEAR = 365 * 24 * 60 * MINUTE


@pytest.fixture(scope="module")
def live(house: House) -> Iterator[Story]:
    """Told while the jobs run, about now, every input speaking."""
    story = Story(house, "live", int(time.time() // 60 - 30) * MINUTE)
    house.start(*story.jobs)
    story.tell()
    story.until_time_has_passed()
    story.tell_late()
    story.close(silent=False)
    yield story
    house.stop(*story.jobs)


@pytest.fixture(scope="module")
def old(house: House, live: Story) -> Iterator[Story]:
    """The same, a year earlier, told before the jobs start, and two of its inputs fall silent."""
    story = Story(house, "old", live.base - YEAR)
    house.topic("old_clicks", 2)
    house.topic("old_orders", 1)
    house.kinesis.create_stream(StreamName="old_users", ShardCount=1)
    house.kinesis.get_waiter("stream_exists").wait(StreamName="old_users", WaiterConfig={"Delay": 1})
    story.tell()
    house.start(*story.jobs)
    story.until_time_has_passed()
    story.tell_late()
    story.close(silent=True)
    yield story
    house.stop(*story.jobs)


@pytest.fixture(params=["live", "old"])
def story(request: pytest.FixtureRequest) -> Story:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def test_windows_count_what_was_not_too_late(story: Story) -> None:
    wanted = story.wanted_minutes()
    assert {row["window_end"] - story.base for row in wanted} == set(range(MINUTE, END + 1, MINUTE))
    until(lambda: not difference(story.minutes(), wanted) or len(story.minutes()) > len(wanted), "windows", 120)
    assert not difference(story.minutes(), wanted)


def test_every_click_meets_the_version_of_its_time(story: Story) -> None:
    wanted = story.wanted_joined()
    assert {row["regionid"] for row in wanted if row["url"] == "./too-late"} == {"r0", "changed late"}
    assert {row["regionid"] for row in wanted if row["url"] == "./within"} == {"changed late"}
    until(lambda: len(story.found("joined")) >= len(wanted), "all clicks are joined", 120)
    assert not difference(story.found("joined"), wanted)


def test_rows_within_the_interval_are_joined(story: Story) -> None:
    wanted = story.wanted_near()
    assert len(wanted) > 1000
    until(lambda: len(story.found("near")) >= len(wanted), "all pairs are there", 120)
    assert not difference(story.found("near"), wanted)


def test_a_year_ago_gives_the_rows_of_today(live: Story, old: Story) -> None:
    for rows in ("found", "minutes"):
        names = ("joined", "near") if rows == "found" else (None,)
        for name in names:
            ours = live.found(name) if name else live.minutes()
            theirs = old.found(name) if name else old.minutes()
            assert ours
            assert not difference(shifted(theirs, old.base), shifted(ours, live.base))


def test_a_backfill_of_partitions_hours_apart_drops_nothing(house: House) -> None:
    hour = 60 * MINUTE
    base = int(time.time() // 3600 - 24 * 400) * hour
    house.topic("backfill_clicks", 8)
    rows = []
    for partition in range(8):
        begin = base + partition * 3 * hour
        mine = [{"event_time": begin + 1000 * n, "url": f"./p{n % 2}", "n": n} for n in range(600)]
        rows += mine
        end = [{"event_time": base + 48 * hour, "url": "./open", "n": -1}]
        house.send("backfill_clicks", mine + end, partition=partition)
    house.start("backfill_minutes")
    wanted = tumbled([(row["event_time"], row) for row in rows], MINUTE, "url", "visits")

    def found() -> list[dict[str, object]]:
        stored = folded(house.records("backfill_minutes"))
        return [r | {name: millis(r[name]) for name in ("window_start", "window_end")} for r in stored]

    until(lambda: len(found()) >= len(wanted), "all windows are closed", 120, 0.5)
    assert not difference(found(), wanted)
    assert house.control.status("backfill_minutes").late_rows == 0
    house.stop("backfill_minutes")
