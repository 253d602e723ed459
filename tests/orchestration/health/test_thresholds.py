"""``@check``: the values that are valid, and the checks of queries and loads that they become."""

from __future__ import annotations

import dagster as dg
import pytest

from ds_dagster.figures import FIGURES
from ds_dagster.orchestration.health.checks import Health
from ds_dagster.sql.thresholds import LIMITED, Threshold, threshold_of
from tests.orchestration.conftest import STREAMS, TABLES, Bench, checks, key, write_project

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("bad_records <= 10", Threshold("bad_records", "<=", 10.0)),
        ("Bad_Records <= 10 WARN", Threshold("bad_records", "<=", 10.0, "warn")),
        ("rows_written>=1 error", Threshold("rows_written", ">=", 1.0)),
        ("lag_seconds < 1.5", Threshold("lag_seconds", "<", 1.5)),
        ("late_rows = 0", Threshold("late_rows", "=", 0.0)),
        ("bad_records", None),
        ("bad_records <= ten", None),
        ("bad_records <= 10 fatal", None),
        ("bad_records != 10", None),
        ("wrong_rows <= 10", None),
        ("watermark <= 10", None),
        ("last_rows <= 10", None),
        ("", None),
    ],
)
def test_values_of_the_tag(text: str, threshold: Threshold | None) -> None:
    assert threshold_of(text) == threshold


def test_every_number_of_a_job_may_have_a_limit() -> None:
    assert {FIGURES[field].name for field in LIMITED.values()} == set(LIMITED)
    assert {name for name, figure in FIGURES.items() if figure.unit == "moment"}.isdisjoint(LIMITED.values())


def limited(bench: Bench) -> None:
    tags = "-- @check bad_records <= 2 warn\n-- @check bad_records <= 10\n-- Clicks from desktop"
    streams = STREAMS.replace("-- Clicks from desktop", tags)
    write_project(bench.project.root, streams=streams, tables=f"-- @check rows_written >= 5\n{TABLES.lstrip()}")
    bench.forget()


@pytest.mark.parametrize(
    ("bad", "warns", "fails"), [(0, False, False), (2, False, False), (3, True, False), (11, True, True)]
)
def test_a_figure_of_a_running_query(bench: Bench, bad: int, warns: bool, fails: bool) -> None:
    limited(bench)
    bench.apply()
    bench.says("desktop", bad_records=bad)
    health = Health.read(bench.control, bench.project)
    props = next(p for p in bench.project.props if p.name.name == "desktop")
    to_warn, to_fail = (health.verdict(name, props) for name in ("bad_records_warn", "bad_records"))
    assert (to_warn.passed, to_fail.passed) == (not warns, not fails)
    assert (to_warn.severity, to_fail.severity) == (WARN, ERROR)
    assert str(bad) in to_fail.reason


def test_a_figure_of_a_query_that_does_not_run_is_not_inside(bench: Bench) -> None:
    limited(bench)
    bench.apply()
    bench.says("desktop", state="FAILED", bad_records=0)
    health = Health.read(bench.control, bench.project)
    props = next(p for p in bench.project.props if p.name.name == "desktop")
    verdict = health.verdict("bad_records", props)
    assert not verdict.passed
    assert "FAILED" in verdict.reason


def test_a_figure_that_is_not_known_is_not_inside(bench: Bench) -> None:
    limited(bench)
    bench.materialize("loaded")
    bench.says("loaded", state="FINISHED")
    props = next(p for p in bench.project.props if p.name.name == "loaded")
    verdict = Health.read(bench.control, bench.project).verdict("rows_written", props)
    assert (verdict.passed, verdict.severity) == (False, WARN)


@pytest.mark.parametrize(("rows", "passed"), [(4, False), (5, True)])
def test_a_load_is_checked_with_its_run(bench: Bench, rows: int, passed: bool) -> None:
    limited(bench)
    bench.materialize("loaded")
    bench.says("loaded", state="FINISHED", rows_written=rows)
    result = bench.materialize("loaded")
    assert checks(result) == {("loaded", "rows_written"): passed}


def test_checks_are_on_their_assets(bench: Bench) -> None:
    limited(bench)
    names = {check.to_user_string() for check in bench.definitions().resolve_asset_graph().asset_check_keys}
    assert f"{key('desktop').to_user_string()}:bad_records" in names
    assert f"{key('desktop').to_user_string()}:bad_records_warn" in names
    assert {name for name in names if "loaded" in name} == {f"{key('loaded').to_user_string()}:rows_written"}
