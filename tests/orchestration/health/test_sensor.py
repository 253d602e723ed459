"""The health sensor: what it reports and when, and how it brings a dead engine back."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from ds_dagster.orchestration.health import report
from ds_dagster.orchestration.health.checks import CHECK_FUNCTIONS, Health
from ds_dagster.orchestration.health.cursor import Cursor, Said
from ds_dagster.orchestration.health.report import Reporter
from ds_dagster.orchestration.health.sensors import LONGEST_START_DELAY, build_ds_health_sensor, heal
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator
from tests.orchestration.conftest import TABLES, Bench, key, write_project


class Sensor:
    """Ticks of one sensor, events stored as the daemon stores them."""

    def __init__(self, bench: Bench, instance: dg.DagsterInstance, observe_seconds: float | None = None) -> None:
        self.bench, self.instance = bench, instance
        self.definition = build_ds_health_sensor(bench.project, observe_seconds=observe_seconds)
        self.cursor: str | None = None
        self.skip = ""

    def tick(self, seconds: float = 0.0) -> list[Any]:
        self.bench.clock.advance(seconds)
        if self.bench.lease is not None:
            self.bench.work()
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"ds_control": self.bench.resource()}
        )
        data = self.definition.evaluate_tick(context)
        self.cursor, self.skip = data.cursor, data.skip_message or ""
        assert not data.run_requests, "it never launches a run"
        events = list(data.asset_events)
        for event in events:
            self.instance.report_runless_asset_event(event)
        return events

    def load(self) -> Cursor:
        return Cursor.load(self.cursor)


@pytest.fixture
def sensor(bench: Bench, instance: dg.DagsterInstance) -> Sensor:
    return Sensor(bench, instance)


RUNNING_CHECKS = [("desktop", name) for name in ("running", "lag", "progress", "fresh")]
"""Those that have an answer only while the query runs."""


def names(events: Sequence[Any], kind: type) -> list[str]:
    return [event.asset_key.path[-1] for event in events if isinstance(event, kind)]


def verdicts(events: Sequence[Any]) -> dict[tuple[str, str], bool]:
    found = [event for event in events if isinstance(event, dg.AssetCheckEvaluation)]
    return {(event.asset_key.path[-1], event.check_name): event.passed for event in found}


# -- what it reports ---------------------------------------------------------------------------------------------------


def test_nothing_to_say_before_anything_was_asked_for(sensor: Sensor) -> None:
    assert sensor.tick() == []
    assert sensor.skip == "no engine, none needed; no queries requested yet"
    assert sensor.bench.launcher.starts == 0


def test_first_report_then_silence(sensor: Sensor) -> None:
    sensor.bench.apply()
    sensor.bench.says("desktop", batch=1, rows=5, progressed=sensor.bench.clock.now())
    events = sensor.tick()
    assert names(events, dg.AssetMaterialization) == ["desktop"]
    assert len(verdicts(events)) == 3 * 4 + 1, "one has @freshness"
    assert all(verdicts(events).values())
    assert sensor.tick(15) == [], "nothing moved"
    assert sensor.skip.startswith("engine running (pid ")
    assert "3 running" in sensor.skip


def test_beats_are_slow(sensor: Sensor) -> None:
    """A busy query is told about every five minutes, or as often as its freshness policy needs."""
    bench = sensor.bench
    bench.apply()
    told: dict[str, list[float]] = {"desktop": [], "counts": []}
    for second in range(0, 631, 30):
        for name in told:
            bench.says(name, batch=second, rows=second, progressed=bench.clock.now())
        for event in sensor.tick(30):
            if isinstance(event, dg.AssetMaterialization):
                told[event.asset_key.path[-1]].append(second)
    assert told["counts"] == [0, 300, 600]
    gaps = [b - a for a, b in itertools.pairwise(told["desktop"])]
    assert set(gaps) == {210}, "freshness 10 minutes: a beat every 200 seconds, rounded up to a tick"


def test_batches_without_rows_are_observed_not_materialized(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    moment = bench.clock.now()
    bench.says("counts", batch=1, progressed=moment)
    sensor.tick()
    bench.says("counts", batch=2, progressed=moment)
    assert sensor.tick(15) == []
    bench.says("counts", batch=3, progressed=moment)
    events = sensor.tick(300)
    assert names(events, dg.AssetMaterialization) == []
    assert names(events, dg.AssetObservation) == ["counts"]
    assert events[0].metadata["ds_dagster/batch"].value == 3


def test_a_heartbeat_keeps_the_tags_of_the_materialization(sensor: Sensor) -> None:
    """Without them everything downstream would turn stale."""
    bench = sensor.bench
    result = bench.materialize("counts", instance=sensor.instance)
    assert result.success
    first = sensor.instance.get_latest_materialization_event(key("counts"))
    assert first is not None
    assert first.asset_materialization is not None
    wanted = {k: v for k, v in (first.asset_materialization.tags or {}).items() if k.startswith("dagster/")}
    assert "dagster/code_version" in wanted
    for batch in (1, 2):
        bench.says("counts", batch=batch, progressed=bench.clock.now() + batch)
        (beat,) = [event for event in sensor.tick(400) if isinstance(event, dg.AssetMaterialization)]
        assert beat.tags == wanted


def test_a_failure_is_told_at_once_and_only_what_changed(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    sensor.tick()
    bench.says("desktop", state="FAILED", condition="STORE_LOGIN_REFUSED", message="refused", hint="correct it")
    events = sensor.tick(15)
    assert verdicts(events) == dict.fromkeys(RUNNING_CHECKS, False)
    assert events[0].severity == dg.AssetCheckSeverity.ERROR
    assert events[0].metadata["ds_dagster/hint"].value == "correct it"
    assert sensor.tick(15) == []
    bench.says("desktop", condition="OTHER", message="something else")
    assert verdicts(sensor.tick(15)) == {("desktop", "running"): False}, "another failure is news"
    bench.says("desktop", state="RUNNING", condition="", message="")
    assert verdicts(sensor.tick(15)) == dict.fromkeys(RUNNING_CHECKS, True)


def test_a_query_that_starts_is_not_judged_yet(sensor: Sensor) -> None:
    """The run that launches it judges it; results told in between would stand before the run's."""
    bench = sensor.bench
    bench.apply("desktop")
    bench.says("desktop", state="STARTING", since=bench.clock.now())
    assert sensor.tick() == []
    bench.clock.advance(400)
    late = sensor.tick()
    assert verdicts(late)["desktop", "running"] is False, "starting for too long"
    assert late[0].severity == dg.AssetCheckSeverity.ERROR
    bench.says("desktop", state="STARTING", since=bench.clock.now())
    (again,) = sensor.tick(15)
    assert (again.passed, again.severity) == (False, dg.AssetCheckSeverity.WARN), "a restart is a warning"
    bench.says("desktop", state="RUNNING")
    assert verdicts(sensor.tick(15)) == dict.fromkeys(RUNNING_CHECKS, True)


def test_all_checks_come_again_now_and_then(sensor: Sensor) -> None:
    sensor.bench.apply()
    sensor.tick()
    assert sensor.tick(600) == []
    assert len(verdicts(sensor.tick(301))) == 13


def test_checks_are_told_once_more_after_a_run(sensor: Sensor) -> None:
    """The run's own results may stand behind those of a tick in between; the UI would show none."""
    bench = sensor.bench
    for _ in range(2):
        assert bench.materialize("desktop", instance=sensor.instance).success
        bench.clock.wall = time.time()
        assert set(verdicts(sensor.tick(30))) == {("desktop", name) for name in CHECK_FUNCTIONS}
        assert sensor.tick(15) == []
        bench.clock.wall = time.time()


def test_a_broken_relation_is_told_without_materializing(bench: Bench, instance: dg.DagsterInstance) -> None:
    write_project(bench.project.root, broken="CREATE STREAM wrong AS SELECT urll FROM clicks;")
    sensor = Sensor(bench, instance)
    assert verdicts(sensor.tick()) == {("wrong", "compiles"): False}
    assert sensor.tick(15) == []


def test_orphans_are_listed(bench: Bench, instance: dg.DagsterInstance) -> None:
    bench.apply()
    streams = bench.project.root / "sql" / "streams.sql"
    text = streams.read_text(encoding="utf-8")
    streams.write_text(text[: text.index("CREATE MATERIALIZED VIEW")], encoding="utf-8")
    bench.forget()
    sensor = Sensor(bench, instance)
    sensor.tick()
    assert "orphans (run without a definition): visits" in sensor.skip


def test_it_never_deploys(bench: Bench, instance: dg.DagsterInstance) -> None:
    bench.apply()
    bench.says("desktop", batch=1)
    before = bench.control.status("desktop")
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("UPPER", "LOWER"), encoding="utf-8")
    bench.forget()
    sensor = Sensor(bench, instance)
    told = verdicts(sensor.tick())
    assert told["desktop", "definition_current"] is False
    assert told["counts", "definition_current"] is True
    bench.work()
    after = bench.control.status("desktop")
    assert (after.generation, after.fingerprint) == (before.generation, before.fingerprint)


# -- the engine --------------------------------------------------------------------------------------------------------


def test_a_dead_engine_is_started_again(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    sensor.tick()
    bench.kill_engine()
    sensor.tick(15)
    assert "engine was gone, started again" in sensor.skip
    assert bench.launcher.starts == 1
    sensor.tick(15)
    assert sensor.skip.startswith("engine running")
    assert sensor.load().starts == 0


def test_no_engine_where_nothing_is_wanted(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    bench.control.stop(["desktop", "counts", "visits"])
    bench.work()
    bench.kill_engine()
    sensor.tick(15)
    assert sensor.skip.startswith("no engine, none needed")
    assert bench.launcher.starts == 0


def test_a_finished_load_needs_no_engine_an_open_one_does(sensor: Sensor) -> None:
    bench = sensor.bench
    assert bench.materialize("loaded").success
    bench.kill_engine()
    starts = bench.launcher.starts
    sensor.tick()
    assert sensor.skip.startswith("no engine, none needed")
    bench.control.request_run(bench.project.project, "loaded")
    sensor.tick(15)
    assert bench.launcher.starts == starts + 1


def test_a_silent_engine_is_never_doubled(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    lease, bench.lease = bench.lease, None  # its locks are held, its beats have stopped
    events = sensor.tick(60)
    assert "a second one is never started" in sensor.skip
    assert bench.launcher.starts == 0
    assert not any(passed for (_, name), passed in verdicts(events).items() if name == "running")
    bench.lease = lease


def test_starts_that_lead_nowhere_come_ever_more_slowly(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    bench.kill_engine()
    bench.is_engine_broken = True
    begin, cursor, moments = bench.clock.now(), Cursor(), list[float]()
    while (now := bench.clock.now()) < begin + 1800:
        before = bench.launcher.starts
        cursor, _ = heal(bench.control, cursor)
        moments += [now - begin] if bench.launcher.starts > before else []
        bench.clock.advance(max(15.0, cursor.next_start - now))
    assert moments == [0, 15, 45, 105, 225, 465, 945, 1545]
    assert max(b - a for a, b in itertools.pairwise(moments)) == LONGEST_START_DELAY
    bench.clock.advance(-15)
    assert "8 starts failed, next one in" in heal(bench.control, cursor)[1]
    sensor.cursor = cursor.dump()
    bench.is_engine_broken = False
    sensor.tick(LONGEST_START_DELAY)
    sensor.tick(15)
    assert sensor.load().starts == 0


def test_a_clock_that_is_set_back_keeps_no_engine_from_its_start(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply()
    bench.kill_engine()
    bench.is_engine_broken = True
    cursor, _ = heal(bench.control, Cursor())
    bench.clock.wall -= 86_400.0
    starts = bench.launcher.starts
    heal(bench.control, cursor)
    assert bench.launcher.starts == starts + 1, "not in a day"


def test_a_start_that_fails_is_said(sensor: Sensor, monkeypatch: pytest.MonkeyPatch) -> None:
    from ds_dagster.errors import error

    def fails(self: object, watch: object, seconds: float) -> None:
        raise error("ENGINE_START_FAILED", code=1, reason="no java", log="engine.out")

    bench = sensor.bench
    bench.apply()
    bench.kill_engine()
    monkeypatch.setattr(type(bench.launcher), "ensure", fails)
    events = sensor.tick(15)
    assert "could not be started" in sensor.skip
    assert "[ENGINE_START_FAILED]" in sensor.skip
    assert not verdicts(events)["desktop", "running"], "the tick goes on to report"


def test_a_journal_that_cannot_be_read_is_said(sensor: Sensor) -> None:
    """In the tick at once, on the assets in the second tick, once; the memory stays."""
    bench = sensor.bench
    bench.apply()
    sensor.tick()
    kept, file = sensor.load(), bench.control.places.state / "journal.db"
    bench.kill_engine()
    bench.control.journal.close()
    text = file.read_bytes()
    file.write_bytes(b"no database")
    assert sensor.tick(15) == []
    assert "[JOURNAL_CORRUPT]" in sensor.skip
    assert replace(sensor.load(), unseen=0) == kept
    events = sensor.tick(15)
    names = ("desktop", "counts", "visits")
    assert verdicts(events) == {("desktop", "fresh"): False, **{(name, "running"): False for name in names}}
    assert {event.severity for event in events} == {dg.AssetCheckSeverity.WARN}
    assert all("is damaged" in event.description for event in events)
    assert sensor.tick(15) == []
    file.write_bytes(text)
    bench.start_engine()
    again = [event for event in sensor.tick(15) if getattr(event, "check_name", "") == "running"]
    assert len(again) == 3 and not any("is damaged" in event.description for event in again)
    assert sensor.load().unseen == 0


def test_a_query_that_starts_needs_no_check_on_running(bench: Bench, instance: dg.DagsterInstance) -> None:
    class NoRunning(DsTranslator):
        def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
            return [spec for spec in super().get_check_specs(props) if spec.name == "lag"]

    bench.answers["desktop"] = {"state": "STARTING"}
    bench.apply()
    definition = build_ds_health_sensor(bench.project, NoRunning(), observe_seconds=None)
    context = dg.build_sensor_context(instance=instance, resources={"ds_control": bench.resource()})
    found = verdicts(definition.evaluate_tick(context).asset_events)
    assert {check for _, check in found} == {"lag"}


def test_a_load_that_starts_and_has_a_wrong_tag_is_told(bench: Bench, instance: dg.DagsterInstance) -> None:
    write_project(bench.project.root, tables="-- @max_lag soon\n" + TABLES.strip())
    bench.forget()
    sensor = Sensor(bench, instance)
    bench.start_engine()
    bench.control.request_run(bench.project.project, "loaded")
    bench.says("loaded", state="STARTING", generation=1)
    assert verdicts(sensor.tick()) == {("loaded", "compiles"): False}


def test_a_job_that_is_gone_from_the_journal_does_not_stay_green(sensor: Sensor, instance: dg.DagsterInstance) -> None:
    """The state folder was deleted: the last results were of another journal."""
    bench = sensor.bench
    bench.apply()
    assert verdicts(sensor.tick())["desktop", "running"]
    bench.kill_engine()
    bench.control.journal.close()
    shutil.rmtree(bench.control.places.state)
    sensor.bench = Bench(bench.project, bench.clock)
    found = verdicts(sensor.tick(15))
    assert [found[name, "running"] for name in ("desktop", "counts", "visits")] == [False] * 3
    assert sensor.tick(15) == [], "once"
    sensor.bench.apply()
    assert verdicts(sensor.tick(15))["desktop", "running"]
    sensor.bench.kill_engine()
    sensor.bench.control.journal.close()


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_tick_has_a_budget(bench: Bench, instance: dg.DagsterInstance) -> None:
    """What does not fit is due in the next tick, and comes first there."""
    bench.apply()
    health = Health.read(bench.control, bench.project)
    times = iter([0.0, 1.0, report.BUDGET_SECONDS, *[1e9] * 9])
    reporter = Reporter(health, DsTranslator(), instance, many=False, monotonic=lambda: next(times))
    first = reporter.report(bench.project.streams, Cursor())
    assert first.left == 2
    told = {path for path, said in first.cursor.said.items() if said.verdicts}
    assert len(told) == 1
    calm = Reporter(health, DsTranslator(), instance, many=False, monotonic=lambda: 0.0)
    second = calm.report(bench.project.streams, first.cursor)
    assert {event.asset_key.path[-1] for event in second.events} == {"desktop", "counts", "visits"} - {
        path.split("/")[-1] for path in told
    }


def test_cursor_round_trip() -> None:
    cursor = replace(
        Cursor({"a/b": Said("i:1", "5.0", 1.0, 2.0, 3.0, "r1", "r0", {"running": "passed"})}, "j", 5.0, 7),
        starts=2,
        next_start=9.0,
    )
    assert Cursor.load(cursor.dump()) == cursor


@pytest.mark.parametrize(
    "text",
    [None, "", "no json", "[]", '"text"', "7", json.dumps({"version": 1, "said": {}}), json.dumps({"version": 3}),
     json.dumps({"version": 3, "said": {"a": {"unknown": 1}}})],
)  # fmt: skip
def test_a_cursor_that_cannot_be_read_starts_anew(text: str | None) -> None:
    assert Cursor.load(text) == Cursor()


def test_the_cursor_forgets_relations_that_are_gone(bench: Bench, instance: dg.DagsterInstance) -> None:
    bench.apply()
    health = Health.read(bench.control, bench.project)
    reporter = Reporter(health, DsTranslator(), instance, many=False, monotonic=lambda: 0.0)
    found = reporter.report(bench.project.streams, Cursor({"gone/relation": Said()}))
    assert "gone/relation" not in found.cursor.said
