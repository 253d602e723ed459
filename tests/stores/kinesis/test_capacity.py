"""Streams on demand and with a longer retention: moto, since the local Kinesis knows no capacity modes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from moto.server import ThreadedMotoServer

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.errors import DsError, UserError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from ds_dagster.stores.kinesis.kind import Kinesis

SOURCES = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:9092');
CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'us-east-1');
CREATE STREAM a (x BIGINT) WITH ('store' = 'k', 'value.format' = 'json');
CREATE STREAM b (x BIGINT) WITH ('store' = 'n', 'value.format' = 'json'{more});
CREATE STREAM c WITH ('store' = 'n'{sink}) AS SELECT x FROM {source};
"""


def compiled(tmp_path: Path, source: str, sink: str = "", more: str = "") -> LoadedProject:
    sql = SOURCES.replace("{more}", more).replace("{sink}", sink).replace("{source}", source)
    return compile_texts([("a.sql", sql)], Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds"))


def plan_of(project: LoadedProject) -> EntityPlan:
    assert not project.errors, [error.text() for error in project.errors]
    (sink,) = [relation for relation in project.catalog.relations.values() if relation.name.name == "c"]
    return Kinesis().entity_plan(sink)


@pytest.fixture(scope="module")
def admin() -> Iterator[KinesisAdmin]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings: Mapping[str, str] = {
        "endpoint_url": f"http://{host}:{port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }
    made = KinesisAdmin("n", settings)
    yield made
    made.close()
    server.stop()


def test_a_sink_on_demand_needs_no_number(tmp_path: Path) -> None:
    assert [e.condition for e in compiled(tmp_path, "a").errors] == ["COUNT_NOT_INFERRED"]
    plan = plan_of(compiled(tmp_path, "a", ", 'kinesis.stream.mode' = ON_DEMAND"))
    assert (dict(plan.counts), plan.settings["kinesis.stream.mode"]) == ({}, "on_demand")
    both = compiled(tmp_path, "a", ", 'kinesis.stream.mode' = ON_DEMAND, 'topic.shards' = 2")
    with pytest.raises(UserError) as refused:
        plan_of(both)
    assert (refused.value.condition, refused.value.span is not None) == ("PROPERTY_INVALID", True)
    with pytest.raises(UserError, match="24 to 8760"):
        plan_of(compiled(tmp_path, "b", ", 'kinesis.stream.retention.hours' = 9000"))


def test_fan_out_is_refused_with_its_reason(tmp_path: Path) -> None:
    (found,) = compiled(tmp_path, "b WITH ('kinesis.read.mode' = ENHANCED_FAN_OUT)").errors
    assert "HTTP/2" in found.text() and found.span is not None
    assert not compiled(tmp_path, "b WITH ('kinesis.read.mode' = POLLING)").errors


LOGINS = """CREATE STORE r WITH ('type' = KINESIS, 'access_region' = 'us-east-1', 'kinesis.iam_role_arn' = 'arn:r',
    'kinesis.external_id' = 'x', 'aws.profile' = 'ops', 'aws.sts_endpoint_url' = 'https://sts.example.com');
CREATE STORE w WITH ('type' = KINESIS, 'access_region' = 'us-east-1', 'aws.profile' = 'ops', 'aws.access_key_id' = 'a',
    'aws.secret_access_key' = '${B}', 'kinesis.external_id' = 'x');"""


def test_roles_and_profiles_are_left_out_where_a_local_server_stands_in(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds")
    project = compile_texts([("a.sql", LOGINS)], settings)
    assert [(e.condition, e.span is not None) for e in project.errors] == [
        ("PROPERTY_INVALID", True),
        ("STORE_PROPERTY_MISSING", True),
    ]
    store = project.catalog.store("r")
    found = Kinesis().client_settings(store, lambda value: str(value.value))
    assert (found["role_arn"], found["external_id"], found["profile_name"]) == ("arn:r", "x", "ops")
    keys = {f"aws.{name}": PropertyValue("local") for name in ("access_key_id", "secret_access_key")}
    local = replace(store, properties={**store.properties, **keys}, overlaid=True)
    assert set(Kinesis().client_settings(local, lambda value: str(value.value))) == {
        "region_name",
        "aws_access_key_id",
        "aws_secret_access_key",
    }
    assert not Kinesis().check_store(local)


@pytest.mark.servers
def test_capacity_is_taken_from_the_left_most_source(admin: KinesisAdmin, tmp_path: Path) -> None:
    admin.ensure(EntityPlan("b", settings=MappingProxyType({"kinesis.stream.mode": "on_demand"}), used_by="b"))
    admin.ensure(EntityPlan("p", MappingProxyType({"topic.shards": 3}), used_by="p"))
    on_demand = plan_of(compiled(tmp_path, "b"))
    assert on_demand.like == ("n", "b") and not on_demand.counts
    assert dict(admin.ensure(on_demand).settings) == {"kinesis.stream.mode": "on_demand"}
    copied = admin.ensure(EntityPlan("q", used_by="q", like=("n", "p")))
    assert (copied.counts["topic.shards"], dict(copied.settings)) == (3, {})
    other = admin.ensure(EntityPlan("r", MappingProxyType({"topic.shards": 2}), used_by="r", like=("n", "p")))
    assert other.counts["topic.shards"] == 2


@pytest.mark.servers
def test_what_was_written_is_compared_with_what_is_there(admin: KinesisAdmin, tmp_path: Path) -> None:
    longer = ", 'topic.shards' = 2, 'kinesis.stream.retention.hours' = 48"
    plan = plan_of(compiled(tmp_path, "a", f", 'topic' = 'kept'{longer}"))
    made = admin.ensure(plan)
    assert (made.counts["topic.shards"], dict(made.settings)) == (2, {"kinesis.stream.retention.hours": "48"})
    assert admin.ensure(plan) == made
    for name, written in (
        ("kinesis.stream.retention.hours", longer.replace("48", "72")),
        ("kinesis.stream.mode", ", 'kinesis.stream.mode' = ON_DEMAND"),
        ("topic.shards", ", 'topic.shards' = 5"),
    ):
        with pytest.raises(DsError) as differs:
            admin.ensure(plan_of(compiled(tmp_path, "a", f", 'topic' = 'kept'{written}")))
        assert (differs.value.condition, differs.value.params["name"]) == ("ENTITY_COUNT_DIFFERS", name)
    moving = ", 'topic' = 'moving', 'kinesis.stream.mode' = ON_DEMAND"
    shards = admin.ensure(plan_of(compiled(tmp_path, "a", moving))).counts["topic.shards"]
    stated = plan_of(compiled(tmp_path, "a", f", 'topic' = 'moving', 'topic.shards' = {shards + 1}"))
    assert admin.ensure(stated).settings["kinesis.stream.mode"] == "on_demand", "its shards change by themselves"
