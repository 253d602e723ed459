"""Groups of overlapping windows, aggregated by pane before a row becomes several, against a plain model."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.plan.nodes.window import WindowFunction
from ds_dagster.spark.operators.windows import with_window
from ds_dagster.spark.records import columns as names
from tests.spark.jvm.planning.conftest import RECORDS, events, plan_of, text
from tests.spark.operators.test_windows import MODELS, millis, window
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

SEED = seed(15)
ROWS = 400


def merged() -> list[Column]:
    """Functions that are computed by pane."""
    amount = sf.col("amount")
    return [sf.count("*"), sf.count(amount), sf.sum(amount), sf.avg(amount), sf.min(amount), sf.max("at")]


def rows_of(dice: random.Random, begin: int) -> list[tuple[int, str | None, int | None, str]]:
    """Time, key, amount and name: many rows in a pane, and some on its bounds."""
    keys, amounts = ["a", "b", "", None], [None, *range(-50, 50)]
    times = [begin + dice.choice([0, 1, 999, 1_000, dice.randrange(20_000)]) for _ in range(ROWS)]
    return [(at, dice.choice(keys), dice.choice(amounts), f"n{number}") for number, at in enumerate(times)]


def model(rows: list[tuple[Any, ...]], function: str, size: int, step: int) -> list[tuple[Any, ...]]:
    groups = defaultdict(list)
    for at, key, amount, _ in rows:
        for bounds in MODELS[function](at, size, step):
            groups[(*bounds, key)].append((amount, at))
    answer = []
    for group, members in groups.items():
        amounts = [amount for amount, _ in members if amount is not None]
        ends = (sum(amounts), sum(amounts) / len(amounts), min(amounts)) if amounts else (None, None, None)
        answer.append((*group, len(members), len(amounts), *ends, max(at for _, at in members)))
    return sorted(answer, key=repr)


def grouped(lab: Any, source: Any, made: Any, functions: list[Column]) -> StreamingQuery:
    windows = with_window(events(source).withWatermark(names.EVENT_TIME, "10 seconds"), made)
    return lab.start(windows.groupBy(names.WINDOW, "key").agg(*functions))


@pytest.mark.parametrize(
    ("function", "size", "step"),
    [("HOP", 10_000, 2_000), ("HOP", 10_000, 4_000), ("HOP", 5_000, 1_000), ("CUMULATE", 12_000, 3_000)],
)
def test_groups_by_pane_are_those_of_the_rows(
    ruled: Any, memory: Callable[[], Any], function: WindowFunction, size: int, step: int
) -> None:
    """Windows that two batches fill, and a restart between them; rows of the same pane in both."""
    ruled.spark.conf.set(RECORDS, "0")
    dice, source = random.Random(SEED + step), memory()
    parts = [rows_of(dice, 0), rows_of(dice, 15_000)]
    emitted: list[tuple[Any, ...]] = []
    ends = [[(10_000_000, "end", 1, "end")]] * 2  # the second one is read behind the time of the first
    for part in [*parts, *ends]:
        query = grouped(ruled, source, window(function, size, step), merged())
        source.add(*(text(row) for row in part))
        emitted += ruled.step(query)
        assert "HashAggregate(keys=[__pane" in plan_of(query)
        query.stop()
    found = [(millis(row[0]["start"]), millis(row[0]["end"]), *row[1:]) for row in emitted]
    assert sorted(found, key=repr) == model([*parts[0], *parts[1]], function, size, step)


@pytest.mark.parametrize("function", ["max_by(name, at)", "max(`__window`.end)"])
def test_other_functions_stay_above(ruled: Any, memory: Callable[[], Any], function: str) -> None:
    """Their results may depend on the order of rows, or on the window, so each row is repeated first."""
    ruled.spark.conf.set(RECORDS, "0")
    source = memory()
    query = grouped(ruled, source, window("HOP", 10_000, 2_000), [*merged(), sf.expr(function)])
    source.add(text((0, "a", 1, "n")))
    ruled.step(query)
    assert "HashAggregate(keys=[__pane" not in plan_of(query)
    assert "__pane" in plan_of(query)
