"""The temporal join against a plain Python model: disorder, deletes, late versions, null keys, restarts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ds_dagster.spark.clocks.config import ClockConfig, InputTime
from ds_dagster.spark.clocks.ticks import temporal_input

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("buckets")]
SECOND = 1_000_000
NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
LEFT = "named_struct('id', id, 'uid', uid)"
RIGHT = "named_struct('region', val, 'tags', array(val))"
LEFT_TYPE = "struct<id:string,uid:string>"
RIGHT_TYPE = "struct<region:string,tags:array<string>>"


@dataclass(frozen=True)
class Event:
    """A click (side 0) or a version of a user (side 1); ``val`` None deletes, ``uid`` '' is a null key."""

    side: int
    uid: str
    ts: int
    order: int
    val: str | None = None

    @property
    def text(self) -> str:
        return f"{self.side},{self.uid},{self.ts},{self.order:06d},{self.val or ''}"


def expected(events: list[Event], outer: bool) -> list[tuple[str, str | None]]:
    """Each click with the version that was valid at its time: the last one at or before it."""
    rows: list[tuple[str, str | None]] = []
    for click in (event for event in events if event.side == 0):
        versions = [e for e in events if e.side == 1 and click.uid and e.uid == click.uid and e.ts <= click.ts]
        valid = max(versions, key=lambda e: (e.ts, e.order), default=None)
        value = valid.val if valid else None
        if value is not None or outer:
            rows.append((str(click.order), value))
    return sorted(rows, key=repr)


def parsed(frame: DataFrame, side: int) -> DataFrame:
    part = fn.split("value", ",")
    split = frame.where(part[0] == str(side)).select(
        fn.nullif(part[1], fn.lit("")).alias("uid"),
        part[2].cast("long").alias("ts"),
        part[3].alias("ord"),
        fn.nullif(part[4], fn.lit("")).alias("val"),
        part[3].cast("int").cast("string").alias("id"),
    )
    left = LEFT if side == 0 else f"CAST(NULL AS {LEFT_TYPE})"
    right = RIGHT if side == 1 else f"CAST(NULL AS {RIGHT_TYPE})"
    return split.selectExpr(
        "named_struct('uid', uid) k",
        f"{side} side",
        "ts",
        "ord",
        f"{side} = 1 AND val IS NULL deleted",
        f"{left} l",
        f"{right} r",
        "timestamp_micros(ts) et",
    )


def joined(lab: Any, source: Any, *, outer: bool, immediate: bool = False, retention: int = 3600 * SECOND) -> DataFrame:
    lab.spark.conf.set(NAMED_SOURCES, "true")
    lab.operators.register_clock(lab.job, ClockConfig(mode="manual", inputs={"a": InputTime()}))
    sides = (parsed(source.frame(), 0), parsed(source.frame(), 1))
    rows = sides[0].unionByName(sides[1]) if immediate else temporal_input(lab.spark, lab.job, sides, "ticks")
    made = lab.operators.temporal_join(rows, outer=outer, immediate=immediate, retention_micros=retention, job=lab.job)
    lab.spark.conf.set(NAMED_SOURCES, "false")
    return made.selectExpr("l.id", "r.region")


def click(second: float, uid: str, order: int) -> Event:
    return Event(0, uid, int(second * SECOND), order)


def user(second: float, uid: str, order: int, val: str | None) -> Event:
    return Event(1, uid, int(second * SECOND), order, val)


def advance(lab: Any, second: float) -> None:
    lab.operators.advance_clock(lab.job, int(second * SECOND))


def test_rows_wait_for_time_and_late_ones_are_joined(lab: Any, memory: Callable[[], Any], late_rows: Any) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=False))
    events = [
        user(100, "a", 1, "EU"), user(100, "b", 2, "US"), user(105, "a", 3, "APAC"), user(106, "b", 4, None),
        click(101, "a", 11), click(105, "a", 12), click(101, "b", 13), click(107, "b", 14), click(110, "c", 15),
        click(9000, "a", 16),
    ]  # fmt: skip
    source.add(*(event.text for event in events))
    assert lab.step(query) == []
    advance(lab, 104)
    assert lab.step(query) == [("11", "EU"), ("13", "US")]
    source.add(click(103, "a", 17).text)
    assert lab.step(query) == [("17", "EU")]
    source.add(user(102, "a", 18, "LATE").text, click(103, "a", 19).text)
    assert lab.step(query) == [("19", "LATE")]
    advance(lab, 120)
    assert lab.step(query) == [("12", "APAC")]
    assert late_rows(query) == 0
    assert lab.operators.clock_snapshot(lab.job)["late"] == {"late_rows": 2, "late_versions": 1}


def test_a_row_at_the_watermark_still_waits(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=True))
    source.add(click(100, "a", 1).text)
    advance(lab, 100)
    assert lab.step(query) == []
    source.add(user(100, "a", 2, "EU").text)
    advance(lab, 100.001)
    assert lab.step(query) == [("1", "EU")]


def test_left_emits_null_keys_and_unknown_keys(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=True))
    source.add(click(100, "", 1).text, click(100, "x", 2).text, user(90, "", 3, "EU").text)
    advance(lab, 101)
    assert lab.step(query) == [("1", None), ("2", None)]


def test_of_two_versions_with_one_time_the_later_position_counts(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=False))
    source.add(user(100, "a", 5, "second").text, user(100, "a", 4, "first").text, click(100, "a", 6).text)
    source.add(user(100, "a", 3, "zeroth").text)
    advance(lab, 101)
    assert lab.step(query) == [("6", "second")]


def test_versions_are_forgotten_after_their_retention(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=True, retention=10 * SECOND))
    source.add(*(user(second, "a", second, f"v{second}").text for second in range(100, 130)))
    advance(lab, 130)
    assert lab.step(query) == []
    source.add(user(131, "a", 131, "v131").text)
    advance(lab, 140)
    assert lab.step(query) == []
    source.add(click(130, "a", 201).text, click(135, "a", 202).text)
    assert lab.step(query) == [("201", "v129"), ("202", "v131")]
    source.add(click(128, "a", 203).text)
    assert lab.step(query) == [("203", None)]


def test_a_deleted_key_leaves_no_state(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=True, retention=10 * SECOND))
    source.add(user(100, "a", 1, "EU").text, user(101, "a", 2, None).text, click(102, "a", 3).text)
    advance(lab, 103)
    assert lab.step(query) == [("3", None)]
    advance(lab, 130)
    assert lab.step(query) == []
    source.add(click(129, "a", 4).text)
    advance(lab, 140)
    assert lab.step(query) == [("4", None)]
    assert query.lastProgress["stateOperators"][0]["numRowsTotal"] == 0


def test_immediate_joins_to_what_has_been_seen(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(joined(lab, source, outer=False, immediate=True))
    source.add(user(100, "a", 1, "EU").text, click(101, "a", 2).text, click(99, "a", 3).text)
    assert lab.step(query) == [("2", "EU")]
    source.add(user(200, "a", 4, None).text, click(150, "a", 5).text, click(201, "a", 6).text)
    assert lab.step(query) == [("5", "EU")]


def test_a_restart_in_the_middle_changes_nothing(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    fail = [True]

    def once(rows: list[Any]) -> bool:
        due, fail[0] = bool(rows) and fail[0], fail[0] and not rows
        return due

    query = lab.start(joined(lab, source, outer=False), fail=once)
    events = [user(100, "a", 1, "EU"), click(101, "a", 2), click(108, "a", 3), user(105, "a", 4, "US")]
    source.add(*(event.text for event in events))
    query.processAllAvailable()
    advance(lab, 104)
    with pytest.raises(Exception, match="injected"):
        query.processAllAvailable()
    query = lab.start(joined(lab, source, outer=False))
    assert lab.step(query) == [("2", "EU")]
    advance(lab, 120)
    assert lab.step(query) == [("3", "US")]


@pytest.mark.parametrize("immediate", [False, True])
def test_a_first_batch_that_fails_is_repeated(immediate: bool, lab: Any, memory: Callable[[], Any]) -> None:
    """It has rows and, by event time, alarms that are due; the second batch finds what it kept."""
    source = memory()
    events = [user(100, "a", 1, "EU"), click(101, "a", 2), click(103, "b", 3), user(104, "b", 4, "US")]
    source.add(*(event.text for event in events))
    frame = joined(lab, source, outer=True, immediate=immediate)
    advance(lab, 102)
    query = lab.start(frame, fail=bool)
    with pytest.raises(Exception, match="injected"):
        query.processAllAvailable()
    assert not (lab.root / "query" / "commits" / "0").exists()
    query = lab.start(joined(lab, source, outer=True, immediate=immediate))
    assert lab.step(query) == [("2", "EU"), *([("3", None)] if immediate else [])]
    source.add(user(105, "a", 5, "UK").text, click(106, "a", 6).text)
    advance(lab, 120)
    assert lab.step(query) == [*([] if immediate else [("3", None)]), ("6", "UK")]
    source.add(click(104, "a", 7).text)
    assert lab.step(query) == [("7", "EU")]


USERS = ("u0", "u1", "u2", "")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Event]], int]:
    """Batches of events whose disorder stays within a bound, in milliseconds of event time."""
    bound = draw(st.integers(0, 400))
    count = draw(st.integers(1, 150))
    seed = draw(st.integers(0, 2**32))
    chance = random.Random(seed)
    events = []
    for number in range(count):
        base = 1_000_000 + number * 50 - chance.randint(0, bound)
        uid = chance.choice(USERS)
        if chance.random() < 0.5:
            events.append(Event(0, uid, base * 1000, number))
        else:
            events.append(Event(1, uid, base * 1000, number, None if chance.random() < 0.2 else f"r{number}"))
    cuts = sorted(chance.sample(range(1, count), min(count - 1, 3))) if count > 1 else []
    edges = [0, *cuts, count]
    return [events[a:b] for a, b in itertools.pairwise(edges)], bound


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=histories(), outer=st.booleans(), restart=st.booleans())
def test_equals_the_model(
    lab: Any, memory: Callable[[], Any], case: tuple[list[list[Event]], int], outer: bool, restart: bool
) -> None:
    batches, bound = case
    source = memory()
    name = source.name
    query = lab.start(joined(lab, source, outer=outer), name=name)
    found: list[Any] = []
    for number, batch in enumerate(batches):
        source.add(*(event.text for event in batch))
        found += lab.step(query)  # a clock that moves before the records are read makes the first of them late
        newest = max(event.ts for done in batches[: number + 1] for event in done)
        lab.operators.advance_clock(lab.job, newest - bound * 1000)
        if restart and number == 0:
            query.stop()
            query = lab.start(joined(lab, source, outer=outer), name=name)
    advance(lab, 2_000_000)
    found += lab.step(query)
    query.stop()
    assert sorted(found, key=repr) == expected([event for batch in batches for event in batch], outer)
    assert lab.operators.clock_snapshot(lab.job)["late"]["late_versions"] == 0
