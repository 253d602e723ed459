"""Overlapping windows whose state is kept by pane, against a plain model: restarts, failures, late rows, and the number
of groups that are kept."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.plan.nodes.window import Window, WindowFunction
from ds_dagster.spark.operators.panes import window_of_pane, with_pane
from ds_dagster.spark.operators.windows import window_grid_millis
from ds_dagster.spark.records import columns as names
from tests.spark.jvm.planning.conftest import RECORDS, events, plan_of, text
from tests.spark.operators.test_windows import MODELS, millis, window
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

SEED = seed(16)
END = 10_000_000
WINDOWS: tuple[tuple[WindowFunction, int, int], ...] = (
    ("HOP", 10_000, 2_000),
    ("HOP", 10_000, 4_000),
    ("HOP", 3_000, 5_000),
    ("CUMULATE", 12_000, 3_000),
)
Record = tuple[int, str | None, int | None, str]


def functions() -> list[Column]:
    """Functions of all kinds of Spark: with one buffer and more, sorted, of any objects."""
    amount, name = sf.col("amount"), sf.col("name")
    return [
        *(sf.count("*"), sf.sum(amount), sf.avg(amount), sf.min(amount)),
        *(sf.max(name), sf.sort_array(sf.collect_set(amount)), sf.max(sf.struct("at", "name"))["name"]),
    ]


def answer(members: list[Record]) -> tuple[Any, ...]:
    amounts = [amount for _, _, amount, _ in members if amount is not None]
    numbers = (sum(amounts), sum(amounts) / len(amounts), min(amounts)) if amounts else (None, None, None)
    last = max((at, name) for at, _, _, name in members)[1]
    return (len(members), *numbers, max(name for *_, name in members), sorted(set(amounts)), last)


def model(rows: Iterable[Record], made: Window) -> list[tuple[Any, ...]]:
    groups = defaultdict(list)
    for row in rows:
        for bounds in MODELS[made.function](row[0], made.size_millis, made.step_millis):
            groups[(*bounds, row[1])].append(row)
    return sorted(((*group, *answer(members)) for group, members in groups.items()), key=repr)


def records(dice: random.Random, begin: int, until: int, count: int = 60) -> list[Record]:
    keys, amounts = ["a", "b", "", None], [None, *range(-9, 9)]
    times = [dice.choice([begin, until - 1, dice.randrange(begin, until)]) for _ in range(count)]
    return [(at, dice.choice(keys), dice.choice(amounts), f"n{number % 7}") for number, at in enumerate(times)]


def grouped(source: Any, made: Window, *keys: str) -> DataFrame:
    panes = with_pane(events(source).withWatermark(names.EVENT_TIME, "0 seconds"), made)
    groups = panes.groupBy(names.PANE, *keys).agg(*functions())
    return groups.withColumn(names.PANE, window_of_pane(made))


def found(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    bounds = ((millis(row[0]["start"]), millis(row[0]["end"]), *row[1:]) for row in rows)
    return sorted((row for row in bounds if row[0] < END - 100_000), key=repr)


def ended(lab: Any, source: Any, query: StreamingQuery) -> list[tuple[Any, ...]]:
    """The rows that come out when time passes the end of all windows."""
    emitted: list[tuple[Any, ...]] = []
    for _ in range(2):  # the second batch has the time of the first
        source.add(text((END, "end", 1, "end")))
        emitted += lab.step(query)
    return emitted


def kept(query: StreamingQuery) -> int:
    (step,) = json.loads(query.lastProgress.json)["stateOperators"]
    return int(step["numRowsTotal"])


@pytest.fixture(params=["2", "1"], ids=["two_partitions", "one"])
def partitions(ruled: Any, request: pytest.FixtureRequest) -> None:
    ruled.spark.conf.set("spark.sql.shuffle.partitions", request.param)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(("function", "size", "step"), WINDOWS)
@pytest.mark.parametrize("few", ["0", "500"], ids=["compiled", "interpreted"])
def test_windows_of_panes_are_those_of_the_rows(
    ruled: Any, memory: Callable[[], Any], function: WindowFunction, size: int, step: int, few: str
) -> None:
    """Each batch has rows of panes of the batch before, runs after a restart, and once more after a failure."""
    ruled.spark.conf.set(RECORDS, few)
    made, dice, source = window(function, size, step), random.Random(SEED + size + step), memory()
    bounds = [0, 7_000, 13_000, 40_000]
    parts = [records(dice, begin, end) for begin, end in pairwise(bounds)]
    for number, part in enumerate(parts):  # rows before the watermark of the next batch belong to it
        latest = [row[0] for before in parts[:number] for row in before]
        assert min(row[0] for row in part) >= max(latest, default=0)
    emitted: list[tuple[Any, ...]] = []
    for part in [*parts, [(END, "end", 1, "end")], [(END, "end", 1, "end")]]:
        source.add(*map(text, part))
        query = ruled.start(grouped(source, made, "key"), fail=lambda _: True)
        with pytest.raises(Exception, match="injected"):
            query.processAllAvailable()
        query = ruled.start(grouped(source, made, "key"))
        emitted += ruled.step(query)
        assert "PaneStep" in plan_of(query)
        query.stop()
    rows = [row for part in parts for row in part]
    assert found(emitted) == model(rows, made)
    assert len(emitted) == len(found(emitted))  # none was emitted twice, and none of the end


@pytest.mark.parametrize(("function", "size", "step"), WINDOWS)
def test_a_group_is_kept_once(
    ruled: Any, memory: Callable[[], Any], function: WindowFunction, size: int, step: int
) -> None:
    made, dice, source = window(function, size, step), random.Random(SEED), memory()
    query = ruled.start(grouped(source, made, "key"))
    part = [row for row in records(dice, 0, 3_000, 200) if list(MODELS[function](row[0], size, step))]
    source.add(*map(text, part))
    emitted = ruled.step(query)
    grid = window_grid_millis(made)
    assert kept(query) == len({(row[0] // grid, row[1]) for row in part})
    assert found(emitted + ended(ruled, source, query)) == model(part, made)
    assert kept(query) <= 1  # the last row's own, if it is in a window


def test_groups_of_all_rows_are_in_one_partition(ruled: Any, memory: Callable[[], Any]) -> None:
    """Without another column to group by, all panes of a window have to meet."""
    made, source = window("HOP", 10_000, 1_000), memory()
    query = ruled.start(grouped(source, made))
    source.add(*(text((at, "a", at, "n")) for at in range(0, 30_000, 500)))
    counts = {row[0]: row[2] for row in found(ruled.step(query) + ended(ruled, source, query))}
    assert counts == {
        start: sum(start <= at < start + 10_000 for at in range(0, 30_000, 500))
        for start in range(-9_000, 30_000, 1_000)
    }


def test_late_rows_count_in_open_windows_alone(
    ruled: Any, memory: Callable[[], Any], late_rows: Callable[[StreamingQuery], int]
) -> None:
    """A row that is late for some of its windows is counted for each of these, as one row of a window each."""
    made, source = window("HOP", 10_000, 2_000), memory()
    query = ruled.start(grouped(source, made, "key"))
    emitted: list[tuple[Any, ...]] = []
    for at in (9_000, 9_000, 3_000):  # windows up to 8 s have ended when the last row comes
        source.add(text((at, "a", 1, "n")))
        emitted += ruled.step(query)
    assert late_rows(query) == 3  # those that end at 4, 6 and 8 s
    emitted += ended(ruled, source, query)
    counts = {row[0]: row[3] for row in found(emitted)}
    assert counts == {0: 3, 2_000: 3, 4_000: 2, 6_000: 2, 8_000: 2}
