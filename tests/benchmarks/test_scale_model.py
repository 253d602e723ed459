"""The model of batches on many nodes: it finds a made-up cluster again, and points that it was not fitted on."""

from __future__ import annotations

import random
import statistics
from dataclasses import astuple, replace
from itertools import product

import pytest

from benchmarks.scale_model import (
    EXECUTORS,
    Load,
    Model,
    Timed,
    errors,
    fewest_nodes,
    fit,
    left_out,
    read_points,
    steady,
)

MADE = Model(fixed=60, step=30, driver=1.5, plain=4, state=12, row=0.002)


def timed(model: Model, load: Load, noise: float = 1.0) -> Timed:
    tasks = (model.plain + model.state * load.steps) * load.partitions + model.row * load.rows
    return Timed(load, noise * model.millis(load), noise * tasks)


def small_runs(noise: float) -> list[Timed]:
    """On 1, 2 and 4 executors of two cores, each a little off."""
    chance = random.Random(7)
    shapes = product((0, 1), (1_000, 50_000, 200_000), (2, 4, 16), (1, 2, 4))
    loads = [Load(steps, rows, partitions, executors, 2) for steps, rows, partitions, executors in shapes]
    return [timed(MADE, load, chance.uniform(1 - noise, 1 + noise)) for load in loads]


def test_a_made_up_cluster_is_found_again() -> None:
    assert astuple(fit(small_runs(0.0))) == pytest.approx(astuple(MADE), rel=1e-6)


@pytest.mark.parametrize("nodes", [8, 32, 100])
def test_small_runs_foretell_large_ones(nodes: int) -> None:
    """Fitted on up to 4 executors, with a tenth of noise; checked on up to 100."""
    model = fit(small_runs(0.1))
    large = [Load(1, rows, nodes * 16, nodes, 16) for rows in (1e5, 1e6, 2e7)]
    assert max(map(abs, errors(model, [timed(MADE, load) for load in large]))) < 0.15


def test_recorded_points_are_met_by_a_model_of_the_others() -> None:
    """Each left out in turn: half of them are met within a seventh, though the machine did other work."""
    points = read_points([EXECUTORS])
    missed = [abs(error) for error in left_out(points)]
    assert len(points) == 10
    assert statistics.median(missed) < 0.15
    assert max(missed) < 0.4


def test_one_executor_foretells_two() -> None:
    points = read_points([EXECUTORS])
    model = fit([point for point in points if point.load.executors == 1])
    two = [point for point in points if point.load.executors == 2]
    assert len(two) == 5
    assert statistics.median(map(abs, errors(model, two))) < 0.1
    assert max(map(abs, errors(model, two))) < 0.35


def test_no_term_is_below_nothing() -> None:
    strange = [timed(replace(MADE, driver=0), load) for load in (Load(1, 10, 1, 1, 1), Load(1, 10, 9, 1, 1))]
    assert min(astuple(fit([*strange, *strange]))) >= 0


def test_a_steady_batch_brings_the_rows_that_arrived() -> None:
    result = steady(MADE, 100_000, Load(1, 0, 16, 2, 8))
    assert result.load is not None
    assert result.load.rows == pytest.approx(100_000 * result.millis / 1000)
    assert steady(MADE, 1e9, Load(1, 0, 16, 2, 8)).load is None, "no batch is long enough"


def test_more_rows_need_more_nodes() -> None:
    loads = [fewest_nodes(MADE, rows, Load(1, 0, 1, 1, 16)).load for rows in (1e6, 1e7, 1e8)]
    nodes = [load.executors for load in loads if load is not None]
    assert nodes == sorted(set(nodes))


def test_rows_that_stay_cost_no_exchange() -> None:
    assert Load(1, 1e6, 8, 4, 2).exchange_millis == 0
    assert Load(1, 1e6, 8, 1, 8, 300).exchange_millis == 0, "one node"
    halves = Load(1, 1e6, 8, 2, 4, 300)
    assert halves.exchange_millis == pytest.approx(1000 * 300 / 2 / 2 / 500)
