"""How long a batch takes on so many nodes: a model that is fitted on few executors, and what it says of many.

    python -m benchmarks.scale_model [POINTS.json …]    fit, show errors, and a table for 1, 10 and 100 million rows/s

A batch of a query with ``S`` steps that keep state (0 or 1 was measured), over ``P`` partitions, on ``N`` executors
with ``c`` cores, so in ``W = ceil(P / (N c))`` waves of tasks::

    milliseconds = fixed + step · S                 planning, offsets, commit
                 + driver · P · (1 + S)             the driver launches each task and takes its result, in turn
                 + (plain + state · S) · W          a task without a row in it; with state it opens and commits its own
                 + row · rows / P · W · straggler   the slowest task of each wave
                 + exchange                         rows that change their node, where every row does

``plain``, ``state`` and ``row`` are fitted on the time that tasks ran, the others on the rest of a batch, by least
squares of relative errors, none below 0. Where all points have one step, only the sums of ``fixed`` and ``step``, and
of ``plain`` and ``state``, mean something. One machine shows neither the exchange, which follows from bytes and
network, nor stragglers, which follow from how much equal tasks differ. Points of one process and those of executors
are not of one model: a task that travels to another process costs more.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.sizing import Point

POINTS = Path(__file__).parent / "points"
EXECUTORS = POINTS / "executors.json"
SPREAD = 0.2
"""Standard deviation of the time of equal tasks, as a share of it. Taken: nobody measured it."""
NETWORK_MEGABYTES = 500.0
"""A second and node, each way. Taken: less than half of what 10 Gbit/s carry."""


@dataclass(frozen=True, slots=True)
class Load:
    """One batch: steps with state, rows, partitions, executors and cores of each; bytes of a row that is exchanged, 0
    where tasks sum rows up before they are sent."""

    steps: int
    rows: float
    partitions: int
    executors: int
    cores: int
    exchanged_bytes: float = 0.0

    @property
    def waves(self) -> int:
        """Rounds in which its tasks run."""
        return math.ceil(self.partitions / (self.executors * self.cores))

    @property
    def exchange_millis(self) -> float:
        """Time in which rows change their node."""
        megabytes = self.steps * self.rows * self.exchanged_bytes / 1e6
        return 1000 * megabytes * (1 - 1 / self.executors) / self.executors / NETWORK_MEGABYTES

    @property
    def straggler(self) -> float:
        """The slowest task of a wave as a multiple of the mean one: of ``n`` normal values about
        ``1 + spread · sqrt(2 ln n)``."""
        tasks = self.partitions / self.waves
        return 1 + SPREAD * math.sqrt(2 * math.log(tasks)) if tasks > 1 else 1.0


@dataclass(frozen=True, slots=True)
class Timed:
    """A load that was measured: milliseconds of its batch, and those that its tasks ran, one after the other."""

    load: Load
    millis: float
    task_millis: float

    @classmethod
    def of(cls, point: Point) -> Timed:
        """Of a point of :mod:`benchmarks.sizing`."""
        load = Load(point.steps, point.rows, point.partitions, point.executors, point.cores)
        return cls(load, point.millis, point.task_millis)


@dataclass(frozen=True, slots=True)
class Model:
    """Milliseconds: of a batch, of a step, of the driver for each task, of a task, of its state, of a row."""

    fixed: float
    step: float
    driver: float
    plain: float
    state: float
    row: float

    def parts(self, load: Load) -> dict[str, float]:
        """Milliseconds by term."""
        return {
            "fixed": self.fixed + self.step * load.steps,
            "driver": self.driver * load.partitions * (1 + load.steps),
            "tasks": (self.plain + self.state * load.steps) * load.waves,
            "rows": self.row * load.rows / load.partitions * load.waves * load.straggler,
            "exchange": load.exchange_millis,
        }

    def millis(self, load: Load) -> float:
        """Of a batch."""
        return sum(self.parts(load).values())


def fit(points: Sequence[Timed]) -> Model:
    """The model of some points."""
    of_tasks = [
        (point.load.partitions, point.load.partitions * point.load.steps, point.load.rows) for point in points
    ]  # fmt: skip
    plain, state, row = _least_squares(of_tasks, [point.task_millis for point in points])
    tasks_only = Model(0, 0, 0, plain, state, row)
    left = [max(point.millis - tasks_only.millis(point.load), 0.01 * point.millis) for point in points]
    of_driver = [(1.0, point.load.steps, point.load.partitions * (1 + point.load.steps)) for point in points]
    fixed, step, driver = _least_squares(of_driver, left, [point.millis for point in points])
    return Model(fixed, step, driver, plain, state, row)


def _least_squares(
    features: Sequence[Sequence[float]], values: Sequence[float], scales: Sequence[float] = ()
) -> tuple[float, ...]:
    """The factors of features that give the values with the least squares of errors, each divided by its scale (by
    default the value itself); a factor that would be below 0 is 0."""
    scale = np.array(scales or values)
    matrix, target = np.array(features) / scale[:, None], np.array(values) / scale
    left = list(range(matrix.shape[1]))
    factors = np.zeros(matrix.shape[1])
    while left:
        solved = np.linalg.lstsq(matrix[:, left], target, rcond=None)[0]
        if (solved >= 0).all():
            factors[left] = solved
            break
        left.pop(int(solved.argmin()))
    return tuple(float(factor) for factor in factors)


def errors(model: Model, points: Iterable[Timed]) -> list[float]:
    """Relative errors of batches: 0.1 is a tenth too long."""
    return [model.millis(point.load) / point.millis - 1 for point in points]


def left_out(points: Sequence[Timed]) -> list[float]:
    """Relative error of each point by a model that is fitted on all others."""
    others = ([*points[:number], *points[number + 1 :]] for number in range(len(points)))
    return [errors(fit(rest), [point])[0] for rest, point in zip(others, points, strict=True)]


@dataclass(frozen=True, slots=True)
class Steady:
    """A query whose batches follow one another: its batch, milliseconds in all and by term. ``load`` is None where no
    batch is long enough for what arrives meanwhile."""

    load: Load | None
    millis: float
    parts: dict[str, float]


def steady(model: Model, rows_a_second: float, load: Load) -> Steady:
    """The batch that takes as long as its rows took to arrive; ``load.rows`` does not matter."""
    empty = model.millis(replace(load, rows=0))
    each = (model.millis(replace(load, rows=1_000_000)) - empty) / 1_000_000
    share = each * rows_a_second / 1000
    if share >= 1:
        return Steady(None, math.inf, {})
    batch = replace(load, rows=rows_a_second * empty / (1 - share) / 1000)
    return Steady(batch, model.millis(batch), model.parts(batch))


def fewest_nodes(model: Model, rows_a_second: float, load: Load) -> Steady:
    """The fewest executors, with the load's cores and a partition for each core, that spend at most half of a batch on
    rows and their exchange. ``executors`` and ``partitions`` of the load do not matter."""
    nodes = 1
    while True:
        result = steady(model, rows_a_second, replace(load, executors=nodes, partitions=nodes * load.cores))
        if result.load is not None and result.parts["rows"] + result.parts["exchange"] <= result.millis / 2:
            return result
        nodes = max(nodes + 1, math.ceil(nodes * 1.02))


def read_points(files: Iterable[Path]) -> list[Timed]:
    """Points that :mod:`benchmarks.sizing` wrote."""
    entries = [entry for file in files for entry in json.loads(file.read_text(encoding="utf-8"))]
    return [Timed.of(Point(**entry)) for entry in entries]


KAFKA_ROW = 1000 / 371_089
"""Milliseconds of processor time for a row of JSON through Kafka (docs/performance.md), which the points have not."""


def main(arguments: Sequence[str]) -> int:
    """Fit and show."""
    points = read_points([Path(name) for name in arguments] or [EXECUTORS])
    model = fit(points)
    names = Model.__slots__
    print(f"{len(points)} points: " + ", ".join(f"{n} {v:.3g} ms" for n, v in zip(names, astuple(model), strict=True)))
    missed = [abs(error) for error in left_out(points)]
    print(f"each point left out in turn: median error {statistics.median(missed):.0%}, largest {max(missed):.0%}")
    whole = replace(model, row=model.row + KAFKA_ROW)
    print(
        f"\nwith {1000 * whole.row:.2f} µs for each row, read from Kafka and written; nodes of 16 cores; milliseconds:"
    )
    for exchanged in (0.0, 300.0):
        for rows in (1e6, 1e7, 1e8):
            result = fewest_nodes(whole, rows, Load(1, 0, 1, 1, 16, exchanged))
            assert result.load is not None
            parts = "  ".join(f"{name} {millis:,.0f}" for name, millis in result.parts.items())
            nodes, batch = result.load.executors, result.millis
            print(f"{rows:13,.0f} rows/s, {exchanged:3.0f} bytes exchanged: {nodes:5} nodes, {batch:9,.0f}: {parts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
