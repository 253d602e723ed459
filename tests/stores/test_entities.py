"""What entity operations do that no stand-in of the conformance suite can: shards changed by the service, types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from types import MappingProxyType
from typing import Any

import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import NewRecord
from ds_dagster.errors import DsError
from ds_dagster.stores.delta.entities import native_text
from ds_dagster.stores.entity_common import json_object, row_record, row_values, shown_path, type_of
from ds_dagster.stores.kinesis.admin import KinesisAdmin


@pytest.mark.parametrize(
    ("native", "dialect", "ours"),
    [
        ("character varying(3)", "postgres", "VARCHAR"),
        ("timestamp with time zone", "postgres", "TIMESTAMP_LTZ"),
        ("timestamp without time zone", "postgres", "TIMESTAMP"),
        ("integer[]", "postgres", "ARRAY<INTEGER>"),
        ("numeric(10,2)", "postgres", "DECIMAL(10,2)"),
        ("numeric", "postgres", "VARCHAR"),
        ("numeric(60,2)", "postgres", "VARCHAR"),
        ("numeric[]", "postgres", "ARRAY<VARCHAR>"),
        ("jsonb", "postgres", "VARCHAR"),
        ("bytea", "postgres", "VARBINARY"),
        ("interval", "postgres", "None"),
        ("array<struct<a:int,b:array<string>>>", "databricks", "ARRAY<STRUCT<a INTEGER, b ARRAY<VARCHAR>>>"),
        ("map<string,bigint>", "databricks", "MAP<VARCHAR,BIGINT>"),
        ("timestamp", "databricks", "TIMESTAMP_LTZ"),
        ("timestamp_ntz", "databricks", "TIMESTAMP"),
        ("decimal(38,0)", "databricks", "DECIMAL(38,0)"),
        ("NUMBER(12,2)", "snowflake", "DECIMAL(12,2)"),
        ("TIMESTAMP_LTZ(9)", "snowflake", "TIMESTAMP_LTZ"),
        ("VARIANT", "snowflake", "VARCHAR"),
        ("STRUCT<a VARCHAR, b ARRAY<BIGINT>>", None, "STRUCT<a VARCHAR, b ARRAY<BIGINT>>"),
        ("no type at all (", None, "None"),
    ],
)
def test_types_of_other_systems(native: str, dialect: str | None, ours: str) -> None:
    assert str(type_of(native, dialect)) == ours


def test_types_of_the_delta_protocol() -> None:
    type_: Any = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "long"}}
    assert native_text(type_) == "map<string,array<long>>"
    struct: Any = {"type": "struct", "fields": [{"name": "a", "type": "integer"}, {"name": "b", "type": type_}]}
    assert str(type_of(native_text(struct), "databricks")) == "STRUCT<a INTEGER, b MAP<VARCHAR,ARRAY<BIGINT>>>"


def test_paths_are_shown_as_they_are_written() -> None:
    assert shown_path(("db", "My schema", 'odd"name')) == '"db"."My schema"."odd""name"'


def test_records() -> None:
    assert json_object(("t",), '{"n": 1.50}')["n"].as_tuple().exponent == -2, "digits are kept"
    assert row_values(("t",), NewRecord('{"a": null}'), ["a", "b"]) == {"a": None}
    for text in ("[1]", "{}", "NaN", "{", '{"c": 1}'):
        with pytest.raises(DsError) as problem:
            row_values(("t",), NewRecord(text), ["a", "b"])
        assert problem.value.condition == "ENTITY_RECORD_INVALID"
    assert json.loads(row_record({"b": b"\x00\x01", "n": None}).value or b"") == {"b": "AAE=", "n": None}


@pytest.fixture
def service() -> Iterator[KinesisAdmin]:
    """moto knows UpdateShardCount, which the stand-in with right resharding does not."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    login = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    admin = KinesisAdmin("n", {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1", **login})
    try:
        with closing(admin):
            yield admin
    finally:
        server.stop()


@pytest.mark.servers
def test_shards_of_a_stream_are_changed(service: KinesisAdmin) -> None:
    operations = service.operations()
    operations.create(("s",), EntityPlan("", MappingProxyType({"topic.shards": 2})))
    operations.update(("s",), EntityPlan("", MappingProxyType({"topic.shards": 4})))
    found = operations.describe(("s",))
    assert found is not None
    assert (found.facts.counts["topic.shards"], found.facts.settings["retention.hours"]) == (4, "24")
    with pytest.raises(DsError) as missing:
        operations.create(("other",), EntityPlan(""))
    assert missing.value.condition == "ENTITY_MISSING"
    with pytest.raises(DsError) as long:
        operations.insert(("s",), NewRecord("1", "k" * 257))
    assert long.value.condition == "ENTITY_RECORD_INVALID"
