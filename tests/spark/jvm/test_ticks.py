"""Time moved by hand: windows, late rows, outer joins, what the optimizer must not do, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ds_dagster.errors import UserError
from ds_dagster.spark.clocks.config import ClockConfig, InputTime
from ds_dagster.spark.clocks.ticks import carry_time, with_ticks
from ds_dagster.spark.jvm import operator_error, operators

pytestmark = pytest.mark.spark
SECOND = 1_000_000


def parsed(source: Any) -> DataFrame:
    part = fn.split("value", ",")
    return source.frame().select(fn.timestamp_seconds(part[0].cast("long")).alias("ts"), part[1].alias("k"))


NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def manual(lab: Any, **options: Any) -> None:
    lab.spark.conf.set(NAMED_SOURCES, "true")
    lab.operators.register_clock(lab.job, ClockConfig(mode="manual", inputs={"a": InputTime()}, **options))


def windows(lab: Any, source: Any) -> DataFrame:
    timed = with_ticks(lab.spark, lab.job, parsed(source), "ts", "ticks")
    counted = timed.where("k <> 'z'").groupBy(fn.window("ts", "10 seconds"), "k").count()
    return counted.select(fn.unix_timestamp("window.start"), "k", "count")


def advance(lab: Any, second: int) -> None:
    lab.operators.advance_clock(lab.job, second * SECOND)


def named(lab: Any, frame: DataFrame) -> DataFrame:
    """Memory streams take no source name."""
    lab.spark.conf.set(NAMED_SOURCES, "false")
    return frame


def counting(lab: Any, memory: Callable[[], Any]) -> tuple[Any, Any]:
    """A topic, and the query that counts it by windows on a clock moved by hand."""
    manual(lab)
    source = memory()
    return source, lab.start(named(lab, windows(lab, source)))


def test_only_ticks_close_windows_and_make_rows_late(lab: Any, memory: Callable[[], Any], late_rows: Any) -> None:
    source, query = counting(lab, memory)
    source.add("1000,a", "1005,a", "1012,b", "9000,z", "9000,y")
    assert lab.step(query) == []
    advance(lab, 1009)
    assert lab.step(query) == []
    source.add("1008,a")
    advance(lab, 1011)
    assert lab.step(query) == [(1000, "a", 3)]
    source.add("1003,late", "1013,b")
    assert lab.step(query) == []
    assert late_rows(query) == 1
    advance(lab, 1020)
    assert lab.step(query) == [(1010, "b", 2)]


def test_time_never_goes_back(lab: Any, memory: Callable[[], Any]) -> None:
    source, query = counting(lab, memory)
    source.add("1000,a")
    advance(lab, 1011)
    assert lab.step(query) == [(1000, "a", 1)]
    advance(lab, 5)
    source.add("1011,a")
    assert lab.step(query) == []
    assert lab.operators.clock_snapshot(lab.job)["time_micros"] == 1011 * SECOND


def test_left_interval_join_emits_while_both_sides_are_silent(lab: Any, memory: Callable[[], Any]) -> None:
    manual(lab)
    left, right = memory(), memory()
    first = with_ticks(lab.spark, lab.job, parsed(left), "ts", "ticks_left").selectExpr("ts lt", "k lk")
    second = with_ticks(lab.spark, lab.job, parsed(right), "ts", "ticks_right").selectExpr("ts rt", "k rk")
    within = "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 5 SECONDS"
    joined = first.where("lk <> 'q'").join(second, fn.expr(within), "left").select("lk", "rk")
    query = lab.start(named(lab, joined))
    left.add("1000,a", "1002,b")
    right.add("1001,a")
    assert lab.step(query) == [("a", "a")]
    advance(lab, 1008)
    assert lab.step(query) == [("b", None)]


def test_predicates_stay_above_the_ticks(lab: Any, memory: Callable[[], Any]) -> None:
    """Every predicate that could remove the tick branch: on the time, on a column, an inferred IS NOT NULL."""
    manual(lab)
    source = memory()
    timed = with_ticks(lab.spark, lab.job, parsed(source), "ts", "ticks")
    filtered = timed.where("k IS NOT NULL AND ts > TIMESTAMP '1970-01-01 00:00:01' AND k LIKE 'a%'")
    counted = filtered.groupBy(fn.window("ts", "10 seconds")).count().select("count")
    query = lab.start(named(lab, counted))
    source.add("1000,a", "1001,b")
    advance(lab, 1011)
    assert lab.step(query) == [(1,)]


def test_ticks_carry_nested_types(lab: Any, memory: Callable[[], Any]) -> None:
    manual(lab)
    source = memory()
    nested = parsed(source).selectExpr(
        "ts", "named_struct('a', k, 'b', array(1L, 2L)) s", "map(k, 1.5D) m", "CAST(1 AS DECIMAL(10,2)) d", "true f"
    )
    timed = with_ticks(lab.spark, lab.job, nested, "ts", "ticks")
    counted = timed.groupBy(fn.window("ts", "10 seconds"), "s.a", "d", "f").agg(fn.sum(fn.expr("m['x']")).alias("m"))
    query = lab.start(named(lab, counted.select("a", "m")))
    source.add("1000,x")
    advance(lab, 1011)
    assert lab.step(query) == [("x", 1.5)]


def test_carried_time_closes_exploded_windows(lab: Any, memory: Callable[[], Any]) -> None:
    manual(lab)
    source = memory()
    timed = with_ticks(lab.spark, lab.job, parsed(source), "ts", "ticks")
    ends = "explode(array(timestamp_seconds(1010), timestamp_seconds(1020)))"
    exploded = timed.select(fn.expr(ends).alias("end"), "k").select(carry_time(fn.col("end"), "end"), "k")
    query = lab.start(named(lab, exploded.groupBy("end").count().select(fn.unix_timestamp("end"), "count")))
    source.add("1000,a", "1001,b")
    advance(lab, 1010)
    assert lab.step(query) == [(1010, 2)]
    advance(lab, 1020)
    assert lab.step(query) == [(1020, 2)]


def test_a_replayed_batch_sees_the_same_tick(lab: Any, memory: Callable[[], Any]) -> None:
    manual(lab)
    source = memory()
    query = lab.start(named(lab, windows(lab, source)), fail=bool)
    source.add("1000,a")
    query.processAllAvailable()
    advance(lab, 1011)
    with pytest.raises(Exception, match="injected"):
        query.processAllAvailable()
    offsets = sorted((lab.root / "query" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    before = offsets[-1].read_text()
    assert '\\"tick\\"' in before or '"tick"' in before
    manual(lab)  # a new run: the registry knows nothing
    query = lab.start(named(lab, windows(lab, source)))
    assert lab.step(query) == [(1000, "a", 1)]
    assert offsets[-1].read_text() == before
    assert lab.operators.clock_snapshot(lab.job)["time_micros"] == 1011 * SECOND
    source.add("1003,a", "1012,b")
    assert lab.step(query) == []
    advance(lab, 1020)
    assert lab.step(query) == [(1010, "b", 1)]


def test_a_tick_is_the_watermark_of_its_own_batch(lab: Any, memory: Callable[[], Any]) -> None:
    """One batch brings the rows and the tick that closes their window; none without data follows."""
    source, query = counting(lab, memory)
    source.add("1000,a")
    advance(lab, 1011)
    assert lab.step(query) == [(1000, "a", 1)]
    batch = query.lastProgress["batchId"]
    assert watermark(lab, batch) == 1_011_000
    source.add("1008,late", "1012,b")
    assert lab.step(query) == []
    assert query.lastProgress["batchId"] == batch + 1
    advance(lab, 1020)
    assert lab.step(query) == [(1010, "b", 1)]
    assert query.lastProgress["batchId"] == batch + 2


def watermark(lab: Any, batch: int) -> int:
    found = json.loads((lab.root / "query" / "offsets" / str(batch)).read_text().splitlines()[1])
    return int(found["batchWatermarkMs"])


def test_a_tick_of_an_earlier_version_is_said_once_more(lab: Any, memory: Callable[[], Any]) -> None:
    """It was the watermark of the batch behind its own, which may not have run."""
    source, query = counting(lab, memory)
    source.add("1000,a")
    advance(lab, 1005)
    assert lab.step(query) == []
    query.stop()
    batch = query.lastProgress["batchId"]
    edited(lab.root / "query" / "offsets" / str(batch), ('"own":true,', ""), ("1005000000", "1011000000"))
    edited(lab.root / "query" / "offsets" / str(batch), ('"batchWatermarkMs":1005000', '"batchWatermarkMs":0'))
    edited(lab.root / "query" / "commits" / str(batch), ("1005000", "1011000"))
    manual(lab)
    query = lab.start(named(lab, windows(lab, source)))
    assert lab.step(query) == [(1000, "a", 1)]
    assert query.lastProgress["batchId"] == batch + 1


def edited(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text().replace('\\"', '"')
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def test_a_query_without_clock_is_refused(lab: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = lab.start(named(lab, windows(lab, source)))
    with pytest.raises(Exception, match="has no clock") as caught:
        query.processAllAvailable()
    refused = operator_error(caught.value)
    assert refused is not None
    assert refused.condition == "CLOCK_NOT_REGISTERED"


def test_a_session_without_the_jar_is_refused(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        class _jvm:  # noqa: N801 - the name py4j's session has
            class dsdagster:  # noqa: N801
                class time:  # noqa: N801
                    Clocks = object()

    with pytest.raises(UserError) as caught:
        operators(Bare())  # type: ignore[arg-type]
    assert caught.value.condition == "OPERATOR_JAR_MISSING"
