"""Relations that others fill: observable assets with shape, size and newest position, by hand and by the sensor."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow
import pytest
from deltalake import write_deltalake

from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.orchestration import DsControlResource, DsProject, DsTranslator, build_ds_definitions
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.health.sensors import build_ds_health_sensor
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.sources import REPEAT_SECONDS, SOURCES_NAME, SourceWatch, observable
from ds_dagster.project.load import store_admin
from ds_dagster.runtime.connecting import resolver
from tests.conftest import lend
from tests.orchestration.conftest import key, write_project
from tests.runtime.fakes import FakeClock

SQL = """
CREATE STORE lake WITH ('type' = DELTA, 'uris' = '{uri}');
CREATE TABLE visits (url VARCHAR, n BIGINT) WITH ('store' = 'lake', 'delta.table.name' = 'visits');
CREATE TABLE none (url VARCHAR) WITH ('store' = 'lake', 'delta.table.name' = 'none');
"""

APPLICATION = """BEGIN APPLICATION pair CREATE STREAM c AS SELECT x FROM again;
    CREATE STREAM d AS SELECT x FROM c; END APPLICATION;"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    add_rows(tmp_path / "lake" / "visits", 2)
    return tmp_path / "lake"


@pytest.fixture
def project(tmp_path: Path, lake: Path) -> DsProject:
    return DsProject(write_project(tmp_path / "project", lake=SQL.format(uri=lake.as_uri())))


def add_rows(place: Path, count: int, **more: list[Any]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    columns = {"url": ["./a"] * count, "n": pyarrow.array([1] * count, pyarrow.int64()), **more}
    write_deltalake(str(place), pyarrow.table(columns), mode="append", schema_mode="merge" if more else None)


def sources(project: DsProject) -> dg.AssetsDefinition:
    definitions = build_ds_definitions(project)
    found: dg.AssetsDefinition = definitions.resolve_assets_def(key("visits"))
    return found


def observed(result: Any, name: str) -> dict[str, Any]:
    (event,) = [e for e in result.asset_observations_for_node(SOURCES_NAME) if e.asset_key == key(name)]
    return {label: value.value for label, value in event.metadata.items()}


def observe(project: DsProject, instance: dg.DagsterInstance, *names: str) -> Any:
    job = dg.define_asset_job("look", selection=dg.AssetSelection.assets(*map(key, names)))
    defs = dg.Definitions.merge(build_ds_definitions(project), dg.Definitions(jobs=[job]))
    return defs.resolve_job_def("look").execute_in_process(instance=instance, raise_on_error=False)


def test_what_others_fill_is_observable_and_nothing_else(project: DsProject) -> None:
    found = sources(project)
    assert found.is_observable
    assert not found.is_materializable
    assert found.keys == {key("visits"), key("none")}


@pytest.mark.parametrize("reader", ["CREATE STREAM c AS SELECT x FROM again;", APPLICATION])
def test_a_topic_that_a_query_writes_stands_between_queries_without_an_op(tmp_path: Path, reader: str) -> None:
    """One op writes b and reads it: an op that observes it in between would leave no order of the ops."""
    text = f"""CREATE STORE prod_kafka WITH ('type' = KAFKA, 'uris' = 'localhost:1');
    CREATE STREAM a (x BIGINT) WITH ('topic'='a', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
    CREATE STREAM b AS SELECT x FROM a;
    CREATE STREAM again (x BIGINT) WITH ('topic'='b', 'value.format'='json');
    {reader}"""
    bound = DsProject(write_project(tmp_path, all=text))
    definitions = build_ds_definitions(bound)
    assert definitions.resolve_assets_def(key("a")).keys == {key("a")}
    specs = {spec.key: spec for spec in definitions.resolve_all_asset_specs()}
    assert key("b") in {dep.asset_key for dep in specs[key("again")].deps}
    assert definitions.resolve_implicit_global_asset_job_def().graph.node_dict
    assert observable(next(props for props in bound.props if props.name.name == "again")), "the sensor looks at it"


def test_an_observation_by_hand(project: DsProject, lake: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = observe(project, instance, "visits")
        assert result.success
        first = observed(result, "visits")
        assert first["dagster/row_count"] == 2
        assert first["ds_dagster/newest"] == {"version": "0"}
        assert first["ds_dagster/bytes"] > 0
        assert (first["ds_dagster/store"], first["ds_dagster/entity"]) == ("lake", "visits")
        add_rows(lake / "visits", 3)
        second = observed(observe(project, instance, "visits"), "visits")
        assert (second["dagster/row_count"], second["ds_dagster/newest"]) == (5, {"version": "1"})
        assert second["ds_dagster/schema_fingerprint"] == first["ds_dagster/schema_fingerprint"], (
            "more data, same shape"
        )
        add_rows(lake / "visits", 1, more=["x"])
        third = observed(observe(project, instance, "visits"), "visits")
        assert third["ds_dagster/schema_fingerprint"] != first["ds_dagster/schema_fingerprint"]
        record = instance.get_latest_data_version_record(key("visits"))
        assert record is not None
        tags = record.asset_observation.tags if record.asset_observation else {}
        assert third["ds_dagster/schema_fingerprint"] in (tags or {}).values(), "the shape is the data version"


def test_an_entity_that_is_missing_fails_the_step_after_the_others(project: DsProject) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = observe(project, instance, "visits", "none")
        assert not result.success
        assert observed(result, "visits")["dagster/row_count"] == 2
        (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
        assert "ENTITY_NOT_FOUND" in str(failure.event_specific_data.error)


@pytest.fixture
def watch(project: DsProject) -> SourceWatch:
    shown: tuple[RelationProps, ...] = tuple(props for props in project.props if observable(props))
    return SourceWatch(project, DsTranslator(), shown, seconds=900.0)


def test_the_sensor_looks_now_and_then_and_tells_what_changed(watch: SourceWatch, lake: Path) -> None:
    clock = FakeClock()
    seen: list[tuple[int, tuple[str, ...]]] = []
    cursor = Cursor()

    def tick(seconds: float) -> list[dg.AssetObservation]:
        nonlocal cursor
        clock.advance(seconds)
        looked = watch.tick(Cursor.load(cursor.dump()), clock.now(), clock.monotonic)
        cursor = looked.cursor
        seen.append((len(looked.events), looked.problems))
        return list(looked.events)

    (event,) = tick(0)
    assert event.metadata["dagster/row_count"].value == 2
    assert seen[-1][1] == ("none: the store lake has no entity none [ENTITY_NOT_FOUND]",)
    assert tick(15) == [], "looks are throttled"
    assert seen[-1] == (0, ())
    assert tick(60) == []
    assert len(seen[-1][1]) == 1, "an entity that was never seen is looked at again soon"
    assert tick(900) == [], "nothing changed"
    add_rows(lake / "visits", 1)
    (changed,) = tick(900)
    assert changed.metadata["dagster/row_count"].value == 3
    assert len(tick(REPEAT_SECONDS)) == 1, "told again now and then"


def test_the_health_sensor_reports_them_and_keeps_its_memory(project: DsProject) -> None:
    clock_free = build_ds_health_sensor(project, observe_seconds=0.0)
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None
        events: list[Any] = []
        for _ in range(3):
            resources = {"ds_control": DsControlResource()}
            context = dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources)
            data = clock_free.evaluate_tick(context)
            cursor = data.cursor
            events += data.asset_events
    assert [event.asset_key for event in events] == [key("visits")], "told once: nothing changed after it"
    assert "not seen: none" in str(data.skip_message)
    assert set(json.loads(cursor or "{}")["said"]) == {"shop/public/visits", "shop/public/none"}
    quiet = build_ds_health_sensor(project, observe_seconds=None)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, resources={"ds_control": DsControlResource()})
        assert not quiet.evaluate_tick(context).asset_events


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory, local_servers: Callable[..., LocalAddresses]) -> Path:
    run = uuid.uuid4().hex[:8]
    text = f"""CREATE STORE prod_kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
    CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'us-east-2');
    CREATE STREAM clicks (url VARCHAR) WITH ('topic' = 'clicks_{run}', 'value.format' = 'json', 'topic.partitions' = 2,
      'topic.replicas' = 1);
    CREATE STREAM users (id VARCHAR) WITH ('store' = 'n', 'topic' = 'users_{run}', 'value.format' = 'json',
      'topic.shards' = 3);
    CREATE STREAM copied AS SELECT url FROM clicks;"""
    root = write_project(tmp_path_factory.mktemp("streaming"), all=text)
    lend(root, local_servers("kafka", "kinesis"))
    return root


@pytest.mark.servers
def test_topics_and_streams_in_a_real_instance(streaming: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event log of a real instance on disk, a real broker, a real job."""
    from ds_dagster.catalog.entity_operations import NewRecord
    from ds_dagster.project.load import kind_of_store

    monkeypatch.delenv("DS_PROFILE", raising=False)
    project = DsProject(streaming)
    relations = {r.name.name: r for r in project.project.catalog.relations.values()}
    for name in ("clicks", "users"):
        relation = relations[name]
        admin = store_admin(project.project, relation.store, resolver(project.settings, relation.store))
        admin.ensure(kind_of_store(project.project, relation).entity_plan(relation))
        for number in range(4):
            admin.operations().insert((relation.entity,), NewRecord('{"url": "./a"}', f"k{number}"))
        admin.close()
    (streaming / "home").mkdir(exist_ok=True)
    with dg.DagsterInstance.local_temp(str(streaming / "home")) as instance:
        result = observe(project, instance, "clicks", "users")
        assert result.success
        clicks, users = observed(result, "clicks"), observed(result, "users")
        assert clicks["ds_dagster/records"] == 4
        assert clicks["ds_dagster/topic.partitions"] == 2
        assert sum(int(offset) + 1 for offset in clicks["ds_dagster/newest"].values()) == 4
        assert users["ds_dagster/topic.shards"] == 3
        assert "ds_dagster/records" not in users, "Kinesis does not tell"
        event = instance.fetch_observations(key("clicks"), limit=1).records[0].asset_observation
        assert event is not None
        assert "ds_dagster/schema_fingerprint" in event.metadata
