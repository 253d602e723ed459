"""The engine's asset: its checks, and what the sensor reports of it."""

from __future__ import annotations

from typing import Any

import dagster as dg

from ds_dagster.orchestration import DsProject
from ds_dagster.orchestration.health.engine import ENGINE_NAME, EngineHealth, build_engine_checks, engine_key
from ds_dagster.orchestration.health.sensors import build_ds_health_sensor
from tests.orchestration.conftest import Bench, write_project

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def health(bench: Bench) -> EngineHealth:
    return EngineHealth.read(bench.control, bench.control.orphans(bench.project.project))


def up(bench: Bench) -> tuple[bool, dg.AssetCheckSeverity, str]:
    verdict = health(bench).verdict("up")
    return verdict.passed, verdict.severity, verdict.reason


def test_no_engine_is_needed_before_anything_was_asked_for(bench: Bench) -> None:
    assert up(bench) == (True, ERROR, "no engine, none needed")


def test_an_engine_that_runs_says_where(bench: Bench) -> None:
    bench.apply()
    passed, _, reason = up(bench)
    assert passed
    assert "pid" in reason
    metadata = health(bench).metadata()
    assert list(metadata)[:2] == ["ds_dagster/state", "ds_dagster/started"], "what people ask first"
    assert metadata["ds_dagster/log"].path.endswith("engine.log")


def test_an_engine_that_is_gone_while_queries_are_wanted_is_an_error(bench: Bench) -> None:
    bench.apply()
    bench.kill_engine()
    bench.clock.advance(60)
    passed, severity, _ = up(bench)
    assert (passed, severity) == (False, ERROR)


def test_jobs_without_a_definition_are_named(bench: Bench) -> None:
    bench.apply()
    assert health(bench).verdict("orphans").passed
    write_project(bench.project.root, streams="CREATE STREAM only (a INT) WITH ('value.format'='json');", tables="")
    bench.forget()
    verdict = health(bench).verdict("orphans")
    assert (verdict.passed, verdict.severity) == (False, WARN)
    assert "desktop" in verdict.reason


class Ticks:
    """Ticks of the sensor, and the events on the engine's asset."""

    def __init__(self, bench: Bench, instance: dg.DagsterInstance) -> None:
        self.bench, self.instance, self.cursor = bench, instance, None
        self.sensor = build_ds_health_sensor(bench.project, observe_seconds=None, engine_asset=True)

    def tick(self) -> list[Any]:
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"ds_control": self.bench.resource()}
        )
        data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        return [event for event in data.asset_events if event.asset_key == engine_key(self.bench.project)]


def names(events: list[Any]) -> list[str]:
    return [getattr(event, "check_name", "observation") for event in events]


def test_the_sensor_reports_changes_once(bench: Bench, instance: dg.DagsterInstance) -> None:
    ticks = Ticks(bench, instance)
    bench.apply()
    assert names(ticks.tick()) == ["observation", "up", "orphans"]
    assert names(ticks.tick()) == []
    bench.kill_engine()
    bench.is_engine_broken = True
    bench.clock.advance(60)
    events = ticks.tick()
    assert names(events)[:2] == ["observation", "up"]
    assert not events[1].passed, "the outage is written down before the engine is started again"
    assert names(ticks.tick()) == []


def test_a_journal_that_cannot_be_read_is_an_error(bench: Bench, instance: dg.DagsterInstance) -> None:
    ticks = Ticks(bench, instance)
    bench.apply()
    ticks.tick()
    bench.kill_engine()
    bench.control.places.state.joinpath("journal.db").write_bytes(b"no database")
    assert ticks.tick() == [], "it may be a moment"
    (event,) = ticks.tick()
    assert (event.check_name, event.passed, event.severity) == ("up", False, ERROR)
    assert event.metadata["ds_dagster/condition"].value == "JOURNAL_CORRUPT"


def test_verdicts_come_again_now_and_then(bench: Bench, instance: dg.DagsterInstance) -> None:
    ticks = Ticks(bench, instance)
    assert names(ticks.tick()) == ["observation", "up", "orphans"]
    bench.clock.advance(901)
    assert names(ticks.tick()) == ["up", "orphans"]


def test_two_projects_have_two_engines(bench: Bench) -> None:
    named = bench.project.renamed("web", "prod")
    assert engine_key(named) == dg.AssetKey(["prod", f"{ENGINE_NAME}_web"])
    assert {spec.asset_key for spec in build_engine_checks(named).check_specs} == {engine_key(named)}


def test_checks_run_by_hand(bench: Bench) -> None:
    bench.apply()
    job = bench.definitions(engine_asset=True).resolve_implicit_global_asset_job_def()
    key = engine_key(DsProject(bench.project.root))
    result = job.execute_in_process(op_selection=["ds_engine_checks"])
    verdicts = {e.check_name: e.passed for e in result.get_asset_check_evaluations() if e.asset_key == key}
    assert verdicts == {"up": True, "orphans": True}
