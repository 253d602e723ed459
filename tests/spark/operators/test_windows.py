"""Windows against a plain model: every row in exactly the windows that hold it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.window import Window, WindowFunction
from ds_dagster.spark.operators.windows import key_of_all, window_grid_millis, with_window
from ds_dagster.spark.records import columns as names

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Bounds = tuple[int, int]


def hop(at: int, size: int, step: int) -> Iterator[Bounds]:
    """Begins at every multiple of the step, tried one by one."""
    for start in range((at - size) // step * step, at + 1, step):
        if start <= at < start + size:
            yield start, start + size


def tumble(at: int, size: int, _step: int) -> Iterator[Bounds]:
    return hop(at, size, size)


def cumulate(at: int, size: int, step: int) -> Iterator[Bounds]:
    start = at // size * size
    for end in range(start + step, start + size + 1, step):
        if at < end:
            yield start, end


MODELS = {"TUMBLE": tumble, "HOP": hop, "CUMULATE": cumulate}


def sessions(times: Iterable[int], gap: int) -> list[tuple[int, int, int]]:
    found: list[list[int]] = []
    for at in sorted(times):
        if found and at <= found[-1][1]:
            found[-1][1:] = [at + gap, found[-1][2] + 1]
        else:
            found.append([at, at + gap, 1])
    return [(start, end, count) for start, end, count in found]


def window(function: WindowFunction, size: int, step: int) -> Window:
    return Window(Node(), "w", size, function, step)


def millis(moment: datetime) -> int:
    return round((moment.replace(tzinfo=timezone.utc) - EPOCH) / timedelta(milliseconds=1))


def counted(row: Row) -> tuple[int, int, int]:
    bounds = row[names.WINDOW]
    return millis(bounds["start"]), millis(bounds["end"]), row["count"]


def moments(seed: int) -> list[int]:
    """Around 1970 and today, on and beside bounds; milliseconds."""
    generator = random.Random(seed)
    today = 1_767_225_600_000
    near = [
        base + offset for base in (0, today) for offset in (-60_001, -1, 0, 1, 3_999, 4_000, 10_000, 59_999, 60_000)
    ]
    return near + [generator.randrange(-100_000, 100_000) + generator.choice((0, today)) for _ in range(60)]


@pytest.mark.parametrize(
    ("function", "size", "step"),
    [
        ("TUMBLE", 10_000, 0),
        ("HOP", 10_000, 5_000),
        ("HOP", 10_000, 4_000),
        ("HOP", 7, 3),
        ("HOP", 10_000, 10_000),
        ("HOP", 1_000, 60_000),
        ("CUMULATE", 60_000, 10_000),
        ("CUMULATE", 10_000, 10_000),
    ],
)
def test_a_row_is_in_the_windows_that_hold_it(
    spark: SparkSession, function: WindowFunction, size: int, step: int
) -> None:
    times = moments(size + step)
    frame = spark.createDataFrame([(at,) for at in times], "at bigint")
    frame = frame.withColumn(names.EVENT_TIME, sf.timestamp_millis("at"))
    made = window(function, size, step)
    found = Counter(
        (row["at"], millis(row[names.WINDOW]["start"]), millis(row[names.WINDOW]["end"]))
        for row in with_window(frame, made).collect()
    )
    assert found == Counter((at, *bounds) for at in times for bounds in MODELS[function](at, size, step))
    grid = window_grid_millis(made)
    assert all(end % grid == 0 for _, _, end in found)


def test_sessions_end_with_the_gap(spark: SparkSession) -> None:
    generator = random.Random(5)
    rows = [(generator.choice("abc"), generator.randrange(0, 300) * 1000) for _ in range(80)]
    frame = spark.createDataFrame(rows, "userid string, at bigint").withColumn(
        names.EVENT_TIME, sf.timestamp_millis("at")
    )
    made = window("SESSION", 7_000, 0)
    keyed = with_window(frame, made)
    found = defaultdict(list)
    for row in keyed.groupBy(names.WINDOW, "userid").count().collect():
        found[row["userid"]].append(
            (millis(row[names.WINDOW]["start"]), millis(row[names.WINDOW]["end"]), row["count"])
        )
    assert {key: sorted(some) for key, some in found.items()} == {
        key: sessions((at for userid, at in rows if userid == key), 7_000) for key in "abc"
    }
    of_all = keyed.groupBy(sf.col(names.WINDOW), *key_of_all(made)).count().collect()
    assert sorted(map(counted, of_all)) == sessions((at for _, at in rows), 7_000)
