"""What ``python -m benchmarks --only sizing`` makes of its points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale_model import POINTS
from benchmarks.sizing import KEYS, PARTITIONS, ROWS, Point, Shape, figures_text, line, measured_figures, touched
from ds_dagster.runtime.sizing.coefficients import load_coefficients

RECORDED = POINTS / "one_machine.json"


def point(shape: Shape) -> Point:
    """Of a machine that is made up: 20 ms a batch, 30 ms a step, 5 ms a partition, 4 µs a group."""
    groups = touched(shape.rows, shape.keys)
    cpu = 2 + shape.steps * groups * 0.004
    millis = 20 + shape.steps * (30 + 5 * (shape.partitions - 2))
    return Point(shape.steps, shape.rows, shape.partitions, shape.keys, 1, 2, millis, cpu, 2 * cpu, 300.0)


def test_a_line_goes_through_its_points() -> None:
    assert line([(0, 1), (1, 3), (2, 5)]) == pytest.approx((1, 2))
    assert line([(0, 0), (1, 2), (2, 1)]) == pytest.approx((0.5, 0.5))


def test_no_batch_has_more_groups_than_rows() -> None:
    assert touched(1_000_000, 100) == pytest.approx(100)
    assert touched(10, 1_000_000) == pytest.approx(10, rel=0.001)


def test_figures_of_a_machine_are_found_again() -> None:
    figures = measured_figures([point(shape) for shape in (*ROWS, *PARTITIONS, *KEYS)])
    assert figures == pytest.approx({"step.group": 250_000, "batch.step": 30, "batch.partition": 5})


def test_the_table_has_what_was_recorded() -> None:
    """Times of a machine that did other work differ by half from run to run, its processor time by a tenth."""
    recorded = measured_figures([Point(**entry) for entry in json.loads(RECORDED.read_text(encoding="utf-8"))])
    table = load_coefficients()
    assert recorded["step.group"] == pytest.approx(table.value("step.group"), rel=0.1)
    assert 0.5 < recorded["batch.partition"] / table.value("batch.partition") < 1.1, "the table has the longer one"


def test_the_file_is_one_for_ds_size(tmp_path: Path) -> None:
    file = tmp_path / "sizing.toml"
    file.write_text(figures_text({"batch.step": 12.5}), encoding="utf-8")
    figure = load_coefficients(file).entries["batch.step"]
    assert (figure.value, figure.is_measured) == (12.5, True)
