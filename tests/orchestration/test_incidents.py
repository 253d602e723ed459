"""The page tells the truth: what killed, stopped, adopted and quiet queries look like, and the log of what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG, CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.observation import EntityObservation
from ds_dagster.orchestration import build_ds_definitions, sources
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.journals.told import told as told_of
from tests.orchestration.conftest import Bench, checks, key, materialized
from tests.orchestration.health.test_sensor import Sensor, names, verdicts


@pytest.fixture
def sensor(bench: Bench, instance: dg.DagsterInstance) -> Sensor:
    return Sensor(bench, instance)


def moved(bench: Bench, *steps: tuple[str, str, str]) -> None:
    """The engine records transitions: query, from, to."""
    at = bench.clock.now()
    added = [Transition(name, at, "state", source, target, "because") for name, source, target in steps]
    with bench.control.journal.write() as connection:
        rows.add_transitions(connection, added)


def told(events: Sequence[Any]) -> list[tuple[str, str, str]]:
    """(relation, from, to) of events about transitions."""
    return [
        (event.asset_key.path[-1], event.metadata["ds_dagster/from"].value, event.metadata["ds_dagster/to"].value)
        for event in events
        if "ds_dagster/from" in event.metadata
    ]


def figures(events: Sequence[Any]) -> list[Any]:
    """Events with figures of an incarnation."""
    return [event for event in events if "ds_dagster/rows" in event.metadata]


# -- the log of incidents ----------------------------------------------------------------------------------------------


def test_every_transition_is_an_event_once_and_in_order(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop", "counts")
    sensor.tick()
    steps = [
        ("desktop", "RUNNING", "BACKING_OFF"),
        ("counts", "RUNNING", "STOPPING"),
        ("desktop", "BACKING_OFF", "STARTING"),
        ("desktop", "STARTING", "RUNNING"),
    ]
    moved(bench, *steps)
    events = sensor.tick(15)
    assert told(events) == steps
    first = next(event for event in events if "ds_dagster/from" in event.metadata)
    assert isinstance(first, dg.AssetObservation)
    assert first.description == "desktop: RUNNING to BACKING_OFF, because"
    assert first.metadata["ds_dagster/at"].value == pytest.approx(bench.clock.now() - 15)
    assert told(sensor.tick(15)) == [], "once"
    moved(bench, ("desktop", "RUNNING", "FAILED"))
    sensor.definition = type(sensor)(bench, sensor.instance).definition  # another process, the same cursor
    assert told(sensor.tick(15)) == [("desktop", "RUNNING", "FAILED")]


def test_a_long_history_is_told_in_parts_and_an_old_one_not(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop")
    moved(bench, ("desktop", "RUNNING", "FAILED"))
    bench.clock.advance(7200)
    assert told(sensor.tick()) == [], "what happened long before the first tick"
    steps = [("desktop", "STARTING", "BACKING_OFF")] * 450
    moved(bench, *steps)
    assert [len(told(sensor.tick(15))) for _ in range(4)] == [200, 200, 50, 0]


def test_another_journal_begins_again(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop")
    moved(bench, *[("desktop", "STARTING", "RUNNING")] * 5)
    assert len(told(sensor.tick())) == 5
    bench.kill_engine()
    bench.control.journal.close()
    for file in bench.control.places.state.glob("journal.db*"):
        file.unlink()
    fresh = Bench(bench.project, bench.clock)
    fresh.apply("desktop")
    moved(fresh, ("desktop", "STARTING", "RUNNING"))
    sensor.bench = fresh
    assert told(sensor.tick(15)) == [("desktop", "STARTING", "RUNNING")]
    fresh.kill_engine()


# -- shapes of sources -------------------------------------------------------------------------------------------------


def reshaped(bench: Bench, query: str, version: str, relation: str = "shop.public.clicks") -> None:
    """The engine records another version of the schema of a source."""
    params = {"registry": "r", "subject": "clicks-value", "version": version, "difference": "device is gone"}
    more = {"relation": relation, "columns": "device", "fix": "remove it"}
    at, columns = bench.clock.now(), told_of(error("SOURCE_SCHEMA_CHANGED", **params, **more))
    columns = {name: columns[name] for name in ("condition", "message", "parameters")}
    added = [
        Transition(query, at, "shape", "", "1", actor="r/clicks-value"),
        Transition(query, at, "shape", "1", version, actor="r/clicks-value", **columns),
    ]
    with bench.control.journal.write() as connection:
        rows.add_transitions(connection, added)


def shapes_in(events: Sequence[Any]) -> list[Any]:
    return [event for event in events if "ds_dagster/version_before" in (event.metadata or {})]


def test_a_new_version_of_a_schema_is_an_event_of_the_source_once(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop", "counts")
    sensor.tick()
    reshaped(bench, "desktop", "2")
    reshaped(bench, "counts", "2")
    (event,) = shapes_in(sensor.tick(15))
    assert event.asset_key == key("clicks")
    assert "device is gone; it affects device of shop.public.clicks" in event.description
    metadata = {name: value.value for name, value in event.metadata.items()}
    assert metadata["ds_dagster/subject"] == "clicks-value"
    assert (metadata["ds_dagster/version_before"], metadata["ds_dagster/version"]) == ("1", "2")
    assert (metadata["ds_dagster/affected_columns"], metadata["ds_dagster/to_do"]) == ("device", "remove it")
    assert shapes_in(sensor.tick(15)) == []
    reshaped(bench, "desktop", "3", relation="shop.public.gone")
    assert shapes_in(sensor.tick(15)) == [], "of a relation that is no asset here"


def test_a_new_version_of_a_schema_makes_no_reader_stale(sensor: Sensor, shape: dict[str, str]) -> None:
    bench, instance = sensor.bench, sensor.instance
    observing = build_ds_definitions(bench.project, resources={"ds_control": bench.resource()})
    job = observing.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(asset_selection=[key("desktop"), key("counts")], instance=instance).success
    before = stale(bench, instance)
    sensor.tick()
    reshaped(bench, "desktop", "2")
    (event,) = shapes_in(sensor.tick(15))
    assert event.tags == {DATA_VERSION_TAG: "1:aaaa"}
    assert before["desktop"] == "FRESH"
    assert stale(bench, instance) == before


# -- killed ------------------------------------------------------------------------------------------------------------


def test_a_killed_engine_is_told_before_it_is_started_again(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop")
    bench.says("desktop", batch=1, rows=5, progressed=bench.clock.now())
    sensor.tick()
    bench.says("desktop", batch=9, rows=90, progressed=bench.clock.now() + 400)
    bench.kill_engine()
    events = sensor.tick(400)
    assert "started again" in sensor.skip
    found = {event.check_name: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}
    assert (found["running"].passed, found["running"].severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert found["running"].metadata["ds_dagster/condition"].value == "ENGINE_NOT_RUNNING"
    assert not found["lag"].passed
    assert not found["progress"].passed
    assert figures(events) == [], "nothing is written for an incarnation that is dead"
    assert names(events, dg.AssetMaterialization) == []


# -- stopped -----------------------------------------------------------------------------------------------------------


def test_a_stopped_query_is_a_warning_and_never_fresh(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop")
    bench.says("desktop", batch=1, progressed=bench.clock.now())
    sensor.tick()
    bench.says("desktop", batch=2, progressed=bench.clock.now() + 299)
    bench.control.stop(["desktop"])
    events = sensor.tick(300)
    assert verdicts(events)["desktop", "running"] is False
    severities = {e.check_name: e.severity for e in events if isinstance(e, dg.AssetCheckEvaluation) and not e.passed}
    assert set(severities.values()) == {dg.AssetCheckSeverity.WARN}
    for _ in range(20):
        assert figures(sensor.tick(300)) == []


def test_a_run_that_stops_leaves_results_of_every_check(sensor: Sensor) -> None:
    bench = sensor.bench
    assert bench.materialize("desktop", instance=sensor.instance).success
    before = sensor.instance.get_latest_materialization_event(key("desktop"))
    result = bench.materialize("desktop", instance=sensor.instance, ds_streams={"action": "stop"})
    assert result.success
    assert materialized(result) == []
    assert checks(result)["desktop", "running"] is False
    after = sensor.instance.get_latest_materialization_event(key("desktop"))
    assert before is not None
    assert after is not None
    assert after.timestamp == before.timestamp
    bench.clock.wall = time.time()
    assert len(verdicts(sensor.tick(30))) == 5, "and once more after the run"
    assert verdicts(sensor.tick(15)) == {}


# -- adopted -----------------------------------------------------------------------------------------------------------


def test_adopting_writes_nothing_that_looks_like_new_data(bench: Bench, instance: dg.DagsterInstance) -> None:
    """Dagster is held to the output without an event: what depends on the stream goes on all the same."""
    assert bench.materialize("counts", instance=instance).success
    before = instance.get_latest_materialization_event(key("counts"))
    result = bench.materialize("counts", "loaded", instance=instance)
    assert result.success
    assert materialized(result) == ["loaded"], "the load behind it ran"
    assert before is not None
    after = instance.get_latest_materialization_event(key("counts"))
    assert after is not None
    assert after.timestamp == before.timestamp
    observed = instance.fetch_observations(key("counts"), limit=1).records[0].asset_observation
    assert observed is not None
    assert observed.metadata["ds_dagster/outcome"].value == "adopted"
    assert checks(result)["counts", "running"], "its checks ran"


def test_what_dagster_does_not_know_yet_is_materialized_when_adopted(
    bench: Bench, instance: dg.DagsterInstance
) -> None:
    bench.apply("counts")
    assert materialized(bench.materialize("counts", instance=instance)) == ["counts"]
    assert materialized(bench.materialize("counts", instance=instance)) == []


# -- fresh -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "beats"), [("10m", [0, 300]), ("10m of watermark", [0, 600]), ("10m of heartbeat", [0, 300, 600, 900])]
)
def test_what_freshness_follows(bench: Bench, instance: dg.DagsterInstance, tag: str, beats: list[int]) -> None:
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("@freshness 10m", f"@freshness {tag}"), encoding="utf-8")
    sensor = Sensor(bench, instance)
    bench.apply("desktop")
    begin, found = bench.clock.now(), []
    for second, rows_at, event_time in ((0, 1, 1), (300, 2, 1), (600, 2, 2), (900, 2, 2)):
        bench.says("desktop", batch=second, progressed=begin + rows_at, watermark=begin + 300 + event_time)
        found += [second] * len(names(sensor.tick(300), dg.AssetMaterialization))
    assert found == beats


def test_history_that_is_read_again_is_not_fresh(bench: Bench, instance: dg.DagsterInstance) -> None:
    """Event time moves, and is a day old: neither a heartbeat nor the check calls that fresh."""
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("@freshness 10m", "@freshness 10m of watermark"))
    sensor = Sensor(bench, instance)
    bench.apply("desktop")
    for second in (300, 600):
        bench.says("desktop", batch=second, progressed=bench.clock.now(), watermark=bench.clock.now() - 86400 + second)
        events = sensor.tick(300)
        assert names(events, dg.AssetMaterialization) == []
    assert instance.get_latest_materialization_event(key("desktop")) is None
    (fresh,) = [e for e in sensor.tick(900) if isinstance(e, dg.AssetCheckEvaluation) and e.check_name == "fresh"]
    assert not fresh.passed
    assert fresh.description is not None
    assert fresh.description.startswith("event time is ")


def test_silence_and_stops_are_told_at_once(sensor: Sensor) -> None:
    bench = sensor.bench
    bench.apply("desktop")
    bench.says("desktop", batch=1, rows=5, progressed=bench.clock.now())
    assert verdicts(sensor.tick())["desktop", "fresh"] is True
    assert verdicts(sensor.tick(600)) == {}, "ten minutes are borne"
    assert verdicts(sensor.tick(15)) == {("desktop", "fresh"): False}, "the next tick"
    bench.says("desktop", batch=2, rows=6, progressed=bench.clock.now())
    assert verdicts(sensor.tick(15))["desktop", "fresh"] is True
    bench.control.stop(["desktop"])
    events = [e for e in sensor.tick(15) if isinstance(e, dg.AssetCheckEvaluation) and e.check_name == "fresh"]
    assert [(e.passed, e.severity.value, e.description) for e in events] == [
        (False, "WARN", "stopped: no new data comes")
    ]


@pytest.mark.parametrize(
    ("wrong", "condition"),
    [
        ("@freshness 10", "FRESHNESS_INVALID"),
        ("@freshness 1s", "FRESHNESS_INVALID"),
        ("@freshness 10m of something", "FRESHNESS_INVALID"),
        ("@freshness of rows", "FRESHNESS_INVALID"),
        ("@freshness 10m rows", "FRESHNESS_INVALID"),
        ("@owner nobody", "OWNER_INVALID"),
        ("@max_lag soon", "MAX_LAG_INVALID"),
        ("@automation eager", "AUTOMATION_INVALID"),
        ("@check bad_rows < 1", "CHECK_INVALID"),
        ("@partitions daily", "PARTITIONS_INVALID"),
    ],
)
def test_a_tag_that_means_nothing_costs_only_itself(
    bench: Bench, instance: dg.DagsterInstance, wrong: str, condition: str
) -> None:
    whole = bench.definitions().resolve_asset_graph().get(key("desktop"))
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("-- @freshness 10m", f"-- {wrong}"), encoding="utf-8")
    bench.forget()
    (warning,) = bench.project.project.diagnostics
    assert (warning.condition, warning.severity) == (condition, "warning")
    assert warning.span is not None
    assert f"-- {wrong}" in sql.read_text(encoding="utf-8").splitlines()[warning.span.line - 1]
    definitions = bench.definitions()
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    node = graph.get(key("desktop"))
    assert (node.parent_keys, node.kinds, node.owners) == (whole.parent_keys, whole.kinds, whole.owners)
    assert node.is_executable
    names_of = {check.name for check in graph.asset_check_keys if check.asset_key == key("desktop")}
    assert names_of == {"running", "lag", "progress", "definition_current", "compiles"}
    result = bench.materialize("desktop", instance=instance)
    assert materialized(result) == ["desktop"], "its query starts all the same"
    told = {check: passed for (name, check), passed in checks(result).items() if name == "desktop"}
    good = dict.fromkeys(("running", "lag", "progress", "definition_current"), True)
    assert told == {**good, "compiles": False}
    (failed,) = [one for one in result.get_asset_check_evaluations() if one.check_name == "compiles"]
    assert condition in str(failed.description)


# -- stale -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shape(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What looks at the topics see."""
    seen = {"fingerprint": "1:aaaa"}

    def look(project: object, relations: Sequence[Relation]) -> Iterator[tuple[Relation, EntityObservation]]:
        for relation in relations:
            yield relation, EntityObservation(relation.store, relation.entity, seen["fingerprint"], size=1)

    monkeypatch.setattr(sources, "look", look)
    return seen


def stale(bench: Bench, instance: dg.DagsterInstance) -> dict[str, str]:
    graph = bench.definitions().resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return {name: resolver.get_status(key(name)).value for name in ("desktop", "counts", "loaded")}


def test_a_look_at_a_source_while_queries_start_makes_nothing_stale(
    bench: Bench, instance: dg.DagsterInstance, shape: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor's first tick comes while a run waits for its queries, after the step has read what it depends on."""
    wait = Control.wait

    def waits(*arguments: Any, **named: Any) -> Any:
        instance.report_runless_asset_event(dg.AssetObservation(key("clicks"), tags={DATA_VERSION_TAG: "1:aaaa"}))
        return wait(*arguments, **named)

    monkeypatch.setattr(Control, "wait", waits)
    observing = build_ds_definitions(bench.project, resources={"ds_control": bench.resource()})
    job = observing.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(asset_selection=[key("desktop")], instance=instance).success
    assert len(instance.fetch_observations(key("clicks"), limit=9).records) == 1
    assert stale(bench, instance)["desktop"] == "FRESH"


def test_the_first_look_at_a_source_makes_nothing_stale(
    bench: Bench, instance: dg.DagsterInstance, shape: dict[str, str]
) -> None:
    observing = build_ds_definitions(bench.project, resources={"ds_control": bench.resource()})
    job = observing.resolve_implicit_global_asset_job_def()
    wanted = [key("desktop"), key("counts"), key("loaded")]
    assert job.execute_in_process(asset_selection=wanted, instance=instance).success
    assert len(instance.fetch_observations(key("clicks"), limit=9).records) == 1
    fresh = dict.fromkeys(("desktop", "counts", "loaded"), "FRESH")
    assert stale(bench, instance) == fresh
    sensor = Sensor(bench, instance, observe_seconds=900.0)
    for _ in range(4):
        sensor.tick(900)
    assert stale(bench, instance) == fresh
    shape["fingerprint"] = "1:bbbb"
    sensor.tick(900)
    assert stale(bench, instance)["desktop"] == "STALE", "the topic has another shape"
    bench.says("desktop", batch=1, progressed=bench.clock.now())
    bench.says("counts", batch=1, progressed=bench.clock.now())
    sensor.tick(900)
    assert stale(bench, instance) == fresh, "a heartbeat carries the versions in force"
