"""One table of figures: every reader shows every figure, under its name and folded by its rule."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import ds_dagster
from ds_dagster.cli.commands.jobs import COLUMNS, _job_json, _row
from ds_dagster.cli.shell.describe import QUERY_FIELDS
from ds_dagster.figures import FIGURES, Figure, Figures, after_batch, over_queries, taken_over
from ds_dagster.orchestration.events import PREFIX, status_metadata
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.status import JobStatus
from ds_dagster.runtime.views import unknown_columns_of
from ds_dagster.settings import Settings
from ds_dagster.spark.queries.progress import BatchProgress
from tests.runtime.fakes import FakeClock, engine_says, project, query

VALUES: dict[str, Any] = {name: 1_700_000_000 + place for place, name in enumerate(FIGURES)}
"""Another value for every figure."""


@pytest.fixture
def status(control: Control, settings: Settings, clock: FakeClock) -> JobStatus:
    """Through the journal and out again."""
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", "FAILED", generation=1, beat=clock.now(), details={"sources": {}}, **VALUES))
    return control.status("a")


def test_every_figure_is_described() -> None:
    assert set(FIGURES) | {"details"} == {item.name for item in fields(Figures)}
    assert all(figure.meaning and figure.part for figure in FIGURES.values())
    for names in ([f.name for f in FIGURES.values()], [f.json for f in FIGURES.values()]):
        assert len(set(names)) == len(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_reaches_every_reader(name: str, status: JobStatus) -> None:
    figure, value = FIGURES[name], VALUES[name]
    assert getattr(status, name) == value
    assert _job_json(status)[figure.json] == value
    shown = status_metadata([status])[f"{PREFIX}/{figure.name}"]
    assert getattr(shown, "value", shown) == value
    assert figure.part in QUERY_FIELDS
    if name in COLUMNS:
        assert list(_row(status, 0.0))[2 + list(COLUMNS).index(name)] is not None


def test_names_in_json_that_others_rely_on_stay(status: JobStatus) -> None:
    promised = {
        "name",
        "relations",
        "state",
        "reason",
        "batch",
        "rows_per_s",
        "lag_records",
        "lag_seconds",
        "watermark",
    }
    assert promised | {"checkpoint", "fingerprint"} <= set(_job_json(status))


FOLDS = {
    "sum": lambda old, new: old + new,
    "last": lambda old, new: new,
    "known": lambda old, new: new,
    "apart": lambda old, new: old,
}


@pytest.mark.parametrize(("name", "figure"), FIGURES.items())
def test_a_batch_changes_a_figure_by_its_rule(name: str, figure: Figure) -> None:
    found = getattr(after_batch(Figures(**{name: 5}), BatchProgress(**{name: 2})), name)
    assert found == FOLDS[figure.over_batches](5, 2)


def test_violations_add_up_by_constraint_and_show_the_newest_sample() -> None:
    first = Figures(violations={"s.a": {"rows": 2, "sample": "0/1"}, "s.b": {"rows": 1}})
    after = after_batch(first, BatchProgress(violations={"s.a": {"rows": 3, "sample": "1/9"}, "s.c": {"rows": 4}}))
    expected = {"s.a": {"rows": 5, "sample": "1/9"}, "s.b": {"rows": 1}, "s.c": {"rows": 4}}
    assert after.violations == expected
    assert after_batch(after, BatchProgress()).violations == expected


def test_a_batch_that_does_not_know_a_figure() -> None:
    before = Figures(watermark=5.0, rows_written=3)
    after = after_batch(before, BatchProgress())
    assert (after.watermark, after.rows_written) == (5.0, 3)
    assert after_batch(Figures(), BatchProgress(rows_written=4)).rows_written == 4


def test_columns_that_no_schema_has_are_named() -> None:
    lacking = {"sources": {"clicks": {"unknown_columns": "url, at", "lag_records": 3}, "users": {"lag_records": 0}}}
    status = JobStatus(**BASE, details=lacking)
    assert _row(status, 0.0)[-1] == "columns that no schema has: url, at of clicks"
    assert unknown_columns_of(JobStatus(**BASE)) == ""


def test_a_start_keeps_what_stays() -> None:
    before = StatusRow("a", batch=7, progressed=3.0, lag_records=9, attempts=2)
    after = taken_over(before, Figures())
    assert (after.batch, after.progressed, after.lag_records, after.attempts) == (7, 3.0, None, 2)


@pytest.mark.parametrize(("name", "figure"), FIGURES.items())
def test_queries_of_one_relation_are_folded_by_the_rule(name: str, figure: Figure) -> None:
    one, two, nobody = (JobStatus(**BASE, **{name: value}) for value in (7, 2, None))
    expected = {"sum": 9, "max": 7, "min": 2}[figure.over_queries]
    assert over_queries([one, two, nobody])[name] == expected


BASE: dict[str, Any] = {"name": "a", "job_id": "j", "relation": "r", "state": "RUNNING", "desired": "RUNNING"}


def test_a_figure_of_a_later_version_is_left_out(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", batch=3))
    with control.journal.write() as connection:
        connection.exec_driver_sql('UPDATE ds_status SET figures = \'{"batch": 4, "of_tomorrow": 1}\'')
        found = rows.statuses(connection)["a"]
    assert found == replace(StatusRow("a"), batch=4)


@pytest.mark.parametrize("name", ["late_rows", "bad_records", "state_rows", "state_bytes"])
def test_a_figure_that_spark_counts_stands_in_two_places(name: str) -> None:
    """The table and the reader of Spark's report: nobody else between there and a person spells its name."""
    package = Path(ds_dagster.__file__).parent
    folders = [package / part for part in ("runtime", "orchestration", "cli")]
    found = [path for folder in folders for path in folder.rglob("*.py") if f".{name}" in path.read_text()]
    migrations = package / "runtime" / "journals" / "schema.py"
    sizing = package / "runtime" / "sizing"  # figures of running queries are what its model reckons with
    assert set(found) <= {migrations, *sizing.glob("*.py")}
