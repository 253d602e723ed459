"""What a batch costs as rows, keys and partitions grow: the figures that ``ds size`` computes with, and the points that
:mod:`benchmarks.scale_model` is fitted on.

Two queries, one without state and a sum by group, over rows that Spark makes; nothing is decoded and nothing written.
The item prints figures beside those of ``ds_dagster/runtime/sizing/coefficients.toml``, and writes two files:

- ``benchmarks/out/sizing.toml``: for ``ds size --coefficients``, of this machine;
- ``benchmarks/out/sizing.json``: every point.

``sizing/cluster`` measures one and two executors of a core each instead (``local-cluster``), for the model alone.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.batches import Amount, Bench, compiled, made_rows, open_bench, plan_mode, planned, run, timed
from benchmarks.measure import Result, Size, say
from benchmarks.operator_works import DECLARED
from ds_dagster.runtime.sizing.coefficients import load_coefficients

OUT = Path(__file__).parent / "out"
STATELESS = "CREATE STREAM q AS SELECT id, grp, amount FROM events WHERE amount > 100;"
SUMS = "CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS total FROM events GROUP BY grp;"
START_MILLIS, STEP_MILLIS = 1_700_000_000_000, 10_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One point's plan and load: steps with state (0, 1), rows of a batch, partitions of rows and of state, groups."""

    steps: int
    rows: int
    partitions: int
    keys: int


@dataclass(frozen=True, slots=True)
class Point:
    """What one batch took, in the median.

    Attributes:
        steps, rows, partitions, keys: see :class:`Shape`.
        executors, cores: processes that run tasks, and cores of each.
        millis: of the batch.
        cpu_millis: of its tasks, of processor time.
        task_millis: that its tasks ran, with what they waited for, one after the other.
        state_bytes: for each group, as Spark reports memory.
    """

    steps: int
    rows: int
    partitions: int
    keys: int
    executors: int
    cores: int
    millis: float
    cpu_millis: float
    task_millis: float
    state_bytes: float


ROWS = tuple(Shape(steps, rows, 2, 1_000) for steps in (0, 1) for rows in (1_000, 50_000, 200_000))
PARTITIONS = tuple(Shape(1, 1_000, partitions, 1_000) for partitions in (1, 4, 8, 16))
KEYS = tuple(Shape(1, 50_000, 2, keys) for keys in (100, 10_000, 100_000))
CLUSTER = (*(Shape(1, 1_000, partitions, 1_000) for partitions in (1, 2, 4, 8)), Shape(1, 500_000, 4, 1_000))


def sizing(size: Size, part: str = "") -> list[Result]:
    """Measure one machine, or with ``cluster`` executors of their own."""
    if part == "cluster":
        points = [point for count in (1, 2) for point in _points(size, CLUSTER, executors=count)]
    else:
        points = list(_points(size, (*ROWS, *PARTITIONS, *KEYS)))
    OUT.mkdir(exist_ok=True)
    file = OUT / ("sizing_cluster.json" if part == "cluster" else "sizing.json")
    file.write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n", encoding="utf-8")
    say(f"points are in {file}")
    if part == "cluster":
        return []
    figures = measured_figures(points)
    (OUT / "sizing.toml").write_text(figures_text(figures), encoding="utf-8")
    return [_beside_the_table(name, value) for name, value in figures.items()]


def measured_figures(points: Sequence[Point]) -> dict[str, float]:
    """Coefficients by name, of points on one machine."""
    groups = [(touched(p.rows, p.keys), p.cpu_millis) for p in points if p.steps == 1 and p.rows == 50_000]
    tasks = [(p.partitions, p.millis) for p in points if p.steps == 1 and p.rows == 1_000]
    small = {p.steps: p.millis for p in points if p.rows == 1_000 and p.partitions == 2}
    return {
        "step.group": 1000 / max(line(groups)[1], 1e-5),
        "batch.step": max(small[1] - small[0], 0.1),
        "batch.partition": max(line(tasks)[1], 0.01),
    }


def touched(rows: int, keys: int) -> float:
    """Different groups that a batch of so many rows has, of groups drawn at random."""
    return keys * (1 - math.exp(-rows / keys))


def line(points: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The straight line through points by least squares: its value at 0, and what one more adds."""
    pairs = list(points)
    middle_x, middle_y = statistics.fmean(x for x, _ in pairs), statistics.fmean(y for _, y in pairs)
    spread = sum((x - middle_x) ** 2 for x, _ in pairs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in pairs) / spread
    return middle_y - slope * middle_x, slope


def figures_text(figures: dict[str, float]) -> str:
    """As a file for ``ds size --coefficients``."""
    head = "# Of this machine, by `python -m benchmarks --only sizing`.\n"
    run_ = "python -m benchmarks --only sizing"
    return head + "".join(f'\n[{name}]\nvalue = {value:.4g}\nrun = "{run_}"\n' for name, value in figures.items())


def _beside_the_table(name: str, value: float) -> Result:
    table = load_coefficients().entries[name]
    ratio = value / table.value if table.unit.startswith("rows") else table.value / value
    return Result(f"sizing: {name} (peer: the table)", round(value, 2), table.value, table.unit, round(ratio, 2), 1)


def _points(size: Size, shapes: Sequence[Shape], executors: int = 0) -> Iterator[Point]:
    master = f"local-cluster[{executors},1,1024]" if executors else ""
    with open_bench(master) as bench:
        _measure(bench, size, shapes[-1])  # Java compiles
        for shape in shapes:
            point = _measure(bench, size, shape, executors)
            tasks = f"tasks {point.task_millis:.0f} ms, {point.cpu_millis:.0f} of CPU"
            say(f"{shape}: {point.millis:.0f} ms, {tasks}, {point.state_bytes:.0f} bytes a group")
            yield point


def _measure(bench: Bench, size: Size, shape: Shape, executors: int = 0) -> Point:
    query = compiled(bench, DECLARED + (SUMS if shape.steps else STATELESS))
    amount = Amount(size.of(6, 2), size.of(10, 3), shape.rows, partitions=shape.partitions)
    with planned(bench, query, partial(_rows, shape)) as (session, frame):
        counted = run(session, frame, plan_mode(query), bench.checkpoint(), amount)
    states = counted.reports[-1]["stateOperators"]
    groups = sum(state["numRowsTotal"] for state in states)
    return Point(
        *(shape.steps, shape.rows, shape.partitions, shape.keys),
        executors=executors or 1,
        cores=1 if executors else 2,
        millis=statistics.median(counted.millis),
        cpu_millis=1000 * counted.cpu / len(counted.reports),
        task_millis=1000 * counted.busy / len(counted.reports),
        state_bytes=sum(state["memoryUsedBytes"] for state in states) / max(groups, 1),
    )


def _rows(shape: Shape, session: SparkSession, topic: str) -> DataFrame:
    options = {"startTimestamp": START_MILLIS, "advanceMillisPerBatch": STEP_MILLIS}
    rows = made_rows(session, topic, shape.rows, numPartitions=shape.partitions, **options)
    return timed(
        rows,
        sf.expr(f"unix_millis(timestamp) + value % {STEP_MILLIS}"),
        sf.col("value").alias("id"),
        sf.expr(f"pmod(hash(value), {shape.keys})").cast("bigint").alias("grp"),
        sf.expr("value % 1000").alias("amount"),
    )
