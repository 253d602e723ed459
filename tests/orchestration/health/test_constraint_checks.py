"""Constraints as asset checks: of sources by what reads them, of results by what fills them."""

from __future__ import annotations

import dagster as dg
import pytest

from ds_dagster.errors import error
from ds_dagster.orchestration.health.checks import Health
from ds_dagster.orchestration.health.verdict import Verdict
from ds_dagster.runtime.journals.told import told
from tests.orchestration.conftest import STREAMS, Bench, checks, key, write_project
from tests.orchestration.health.test_sensor import Sensor, verdicts

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
CHECKED = STREAMS.replace(
    "at_ms BIGINT)",
    "at_ms BIGINT, CONSTRAINT timed CHECK (at_ms > 0) ON VIOLATION DROP, CONSTRAINT seen CHECK (url <> ''))",
).replace("STREAM desktop AS", "STREAM desktop (CONSTRAINT short CHECK (CHAR_LENGTH(url) < 9) ON VIOLATION WARN) AS")
TIMED, SHORT = "shop.public.clicks.timed", "shop.public.desktop.short"


@pytest.fixture
def checked(bench: Bench) -> Bench:
    write_project(bench.project.root, streams=CHECKED)
    bench.forget()
    return bench


def verdict(bench: Bench, relation: str, name: str) -> Verdict:
    props = next(props for props in bench.project.props if props.name.name == relation)
    return Health.read(bench.control, bench.project).verdict(name, props)


def test_a_source_is_judged_by_the_queries_that_read_it(checked: Bench) -> None:
    assert verdict(checked, "clicks", "constraint_timed").reason == "never started"
    checked.apply()
    assert verdict(checked, "clicks", "constraint_timed").passed
    checked.says("desktop", violations={TIMED: {"rows": 2, "sample": "0/7"}})
    checked.says("visits", violations={TIMED: {"rows": 3}})
    violated = verdict(checked, "clicks", "constraint_timed")
    assert (violated.passed, violated.severity, violated.condition) == (False, WARN, "CONSTRAINT_VIOLATED")
    assert violated.reason == "rows that violate it since the start (drop): 2 in desktop, 3 in visits"
    assert violated.metadata["ds_dagster/violations"] == 5
    assert violated.metadata["ds_dagster/samples"].value == {"desktop": "0/7"}
    assert verdict(checked, "clicks", "constraint_seen").passed
    assert verdict(checked, "desktop", "constraint_short").passed


def test_counts_of_a_query_that_is_over_are_history(checked: Bench) -> None:
    checked.apply()
    checked.says("desktop", state="STOPPED", violations={SHORT: {"rows": 2}})
    assert verdict(checked, "desktop", "constraint_short").passed


def test_a_query_that_ended_by_a_constraint_is_an_error_of_that_constraint_alone(checked: Bench) -> None:
    checked.apply()
    failure = error("CONSTRAINT_VIOLATED_BY_GROUP", relation="shop.public.clicks", constraint="seen")
    checked.says("counts", state="FAILED", **told(failure))
    violated = verdict(checked, "clicks", "constraint_seen")
    assert (violated.passed, violated.severity) == (False, ERROR)
    assert violated.reason.startswith(
        "counts ended: a row that was computed from several records violates constraint seen of"
    )
    assert verdict(checked, "clicks", "constraint_timed").passed


def test_the_sensor_reports_changes_of_sources_and_results_once(checked: Bench, instance: dg.DagsterInstance) -> None:
    checked.apply()
    sensor = Sensor(checked, instance)
    first = verdicts(sensor.tick())
    assert first["clicks", "constraint_timed"] and first["clicks", "constraint_seen"]
    assert first["desktop", "constraint_short"]
    checked.says("desktop", violations={TIMED: {"rows": 1}, SHORT: {"rows": 2}})
    second = verdicts(sensor.tick(5))
    assert second["clicks", "constraint_timed"] is False and second["desktop", "constraint_short"] is False
    assert ("clicks", "constraint_seen") not in second
    assert not {name for _, name in verdicts(sensor.tick(5)) if name.startswith("constraint_")}


def test_they_run_with_the_asset(checked: Bench) -> None:
    checked.apply()
    checked.says("desktop", violations={SHORT: {"rows": 2}})
    outcome = checks(checked.materialize("desktop"))
    assert outcome["desktop", "constraint_short"] is False
    assert outcome["desktop", "running"] is True


def test_the_quarantine_of_a_source_is_an_asset(bench: Bench) -> None:
    write_project(bench.project.root, streams=CHECKED.replace("ON VIOLATION DROP", "ON VIOLATION QUARANTINE"))
    bench.forget()
    specs = {spec.key: spec for spec in bench.definitions().resolve_all_asset_specs()}
    assert specs[key("clicks_quarantine")].code_version is None
    deps = {dep.asset_key for dep in specs[key("clicks_quarantine")].deps}
    assert deps & {key("desktop"), key("counts"), key("visits")}
    assert specs[key("clicks_quarantine")].description is None


def test_names_that_dagster_writes_alike_stay_apart(bench: Bench) -> None:
    alike = CHECKED.replace("CONSTRAINT seen", "CONSTRAINT \"a b\" CHECK (url <> 'x'), CONSTRAINT a_b")
    write_project(bench.project.root, streams=alike)
    bench.forget()
    props = next(props for props in bench.project.props if props.name.name == "clicks")
    assert {name: c.name for name, c in props.constraint_checks.items()} == {
        "constraint_timed": "timed", "constraint_a_b": "a b", "constraint_a_b_2": "a_b",
    }  # fmt: skip
