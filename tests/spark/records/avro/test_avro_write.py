"""Avro records that sinks write: schemas registered once, bases kept, read back by Confluent's own deserializer."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ds_dagster.errors import ExternalError, UserError
from tests.spark.records.avro.conftest import AvroBench, field, record

UTC = datetime.timezone.utc
TYPES = """
CREATE STREAM s (b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INTEGER NOT NULL, i8 BIGINT, f4 FLOAT, f8 DOUBLE,
  d DECIMAL(20,3), t VARCHAR, day DATE, tod TIME(6), at TIMESTAMP(6), inst TIMESTAMP_LTZ,
  a ARRAY<VARCHAR>, m MAP<VARCHAR, INTEGER>,
  st STRUCT<x INTEGER, y ARRAY<STRUCT<z VARCHAR>>>)
  WITH ('store' = 'm', 'topic' = 's', 'value.format' = 'json');
"""
SINK = (
    "CREATE STREAM d WITH ('value.format' = 'avro', 'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT {} FROM s;"
)
ROW = {
    "b": True, "i1": -1, "i2": 300, "i4": 5, "i8": 2**60, "f4": 0.5, "f8": -1e300, "d": -1234567.125,
    "t": "grüße", "day": "2024-02-29", "tod": "01:02:03.000004", "at": "2024-01-01 00:00:00.000001",
    "inst": "2024-01-01 00:00:00.005Z", "a": ["x", None], "m": {"k": 1, "n": None}, "st": {"x": 1, "y": [{"z": "q"}]},
}  # fmt: skip


def read_back(bench: AvroBench, topic: str, part: str = MessageField.VALUE) -> list[Any]:
    """What Confluent's deserializer makes of the records."""
    with SchemaRegistryClient({"url": bench.registry.url}) as client:
        reader = AvroDeserializer(client)
        context = SerializationContext(topic, part)
        return [reader(record[part], context) for record in bench.records]


def test_all_types_are_read_back_by_confluents_deserializer(bench: AvroBench) -> None:
    bench.compile(TYPES + SINK.format("*"))
    query = bench.start("d")
    bench.send("s", ROW, {"i4": 6})
    bench.settle(query)
    full, empty = read_back(bench, "d")
    naive = datetime.datetime(2024, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - a local time
    expected = {
        **ROW, "d": Decimal("-1234567.125"), "day": datetime.date(2024, 2, 29),
        "tod": datetime.time(1, 2, 3, 4), "at": naive, "inst": datetime.datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
    }  # fmt: skip
    assert full == expected
    assert empty == {**dict.fromkeys(ROW), "i4": 6}
    assert bench.registry.subjects == {"d-value": [1]}


def test_a_schema_is_registered_once_over_restarts_and_changes_with_the_query(bench: AvroBench) -> None:
    bench.compile(TYPES + SINK.format("i4, t"))
    for _ in range(2):
        bench.settle(bench.start("d"))
        bench.stop()
    assert bench.registry.asked("/subjects/d-value/versions") == 1
    bench.compile(TYPES + SINK.format("i4, t, i8"))
    bench.send("s", ROW)
    bench.settle(bench.start("d"))
    assert bench.registry.subjects == {"d-value": [1, 2]}
    assert read_back(bench, "d") == [{"i4": 5, "t": "grüße", "i8": 2**60}]


def test_fields_of_the_base_are_kept_where_they_fit(bench: AvroBench) -> None:
    """The subject's newest version is the base: names, docs, logical types, defaults."""
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    color = {
        "type": "enum",
        "name": "Color",
        "namespace": "other",
        "symbols": ["grüße".replace("ü", "u").replace("ß", "s"), "red"],
    }
    base = {
        **record(
            field("t", ["null", color], doc="a colour", default=None),
            field("inst", ["null", millis], default=None, doc="when"),
            field("i4", "int", doc="a number", default=7),
            field("i8", ["null", "string"], doc="was text", default=None),
            name="Shop",
        ),
        "namespace": "com.example",
        "doc": "what is sold",
    }
    bench.registry.compatibility = "NONE"
    assert bench.registry.register("d-value", base) == 1
    bench.compile(TYPES + SINK.format("t, inst, i4, i8, day"))
    query = bench.start("d")
    bench.send("s", {**ROW, "t": "red"})
    bench.settle(query)
    made = json.loads(bench.registry.schemas[2]["schema"])
    assert (made["name"], made["doc"]) == ("com.example.Shop", "what is sold")
    by_name = {one["name"]: one for one in made["fields"]}
    assert by_name["t"]["doc"] == "a colour"
    assert by_name["t"]["type"][1]["name"] == "other.Color"
    assert by_name["inst"] == base["fields"][1]
    assert by_name["i4"] == base["fields"][2]
    assert by_name["i8"] == {"name": "i8", "type": ["null", "long"], "default": None, "doc": "was text"}
    assert "doc" not in by_name["day"]
    (row,) = read_back(bench, "d")
    assert (row["t"], row["i4"], row["i8"]) == ("red", 5, 2**60)
    bench.send("s", {**ROW, "t": "blue"})
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "AVRO_VALUE_UNWRITABLE"
    assert "t: is none of the symbols" in str(fault)


def test_a_text_is_written_as_the_uuid_of_the_base(bench: AvroBench) -> None:
    uuid = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    bench.registry.register("d-value", record(field("t", ["null", uuid], default=None), name="Row"))
    bench.compile(TYPES + SINK.format("t"))
    query = bench.start("d")
    bench.send("s", {**ROW, "t": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, {**ROW, "t": None})
    bench.settle(query)
    assert [made["value"][5:].hex() for made in bench.records] == ["02a0eebc999c0b4ef8bb6d6bb9bd380a11", "00"]
    bench.send("s", {**ROW, "t": "s3cret"})
    fault = bench.fault(query)
    assert fault.condition == "AVRO_VALUE_UNWRITABLE"
    assert "t: is not a UUID" in str(fault) and "s3cret" not in str(fault)


def test_an_incompatible_change_is_refused_with_the_difference(bench: AvroBench) -> None:
    bench.compile(TYPES + SINK.format("i4, t"))
    bench.prepare("d")
    bench.compile(TYPES + SINK.format("i4 AS i5, CAST(t AS BIGINT) AS t"))
    with pytest.raises(UserError) as caught:
        bench.prepare("d")
    assert caught.value.condition == "SCHEMA_INCOMPATIBLE"
    told = str(caught.value.params["difference"])
    assert "i5 is new and has no default; i4 is gone and has no default" in told
    assert "t was null or string, is null or long" in told
    assert bench.registry.subjects == {"d-value": [1]}


def test_a_registry_that_is_away_or_refuses_the_login(bench: AvroBench) -> None:
    bench.compile(TYPES + SINK.format("i4"))
    bench.registry.login = ("someone", "else")
    with pytest.raises(UserError, match="REGISTRY_LOGIN_REFUSED"):
        bench.prepare("d")
    bench.registry.stop()
    with pytest.raises(ExternalError, match="REGISTRY_UNREACHABLE"):
        bench.prepare("d")


def test_changelogs_have_avro_keys_and_deletes(bench: AvroBench) -> None:
    users = (
        "CREATE CHANGELOG u (id VARCHAR, n INTEGER NOT NULL, PRIMARY KEY (id)) WITH ('store' = 'm', 'topic' = 'u', "
        "'value.format' = 'json');"
    )
    sink = SINK.replace("STREAM", "CHANGELOG").replace("FROM s", "FROM u")
    bench.compile(users + sink.format("*"))
    query = bench.start("d")
    bench.send("u", {"id": "a", "n": 1}, key={"id": "a"})
    bench.send("u", None, key={"id": "a"})
    bench.settle(query)
    assert read_back(bench, "d") == [{"id": "a", "n": 1}, None]
    assert read_back(bench, "d", MessageField.KEY) == [{"id": "a"}, {"id": "a"}]
    assert sorted(bench.registry.subjects) == ["d-key", "d-value"]


def test_what_is_written_is_what_is_read(bench: AvroBench) -> None:
    """All types through our own decoder again."""
    bench.compile(TYPES + SINK.format("*"))
    bench.send("s", ROW)
    bench.settle(bench.start("d"))
    (record,) = bench.records
    bench.stop()
    bench.records.clear()
    again = TYPES.replace("STREAM s (", "STREAM d (").replace(
        "'store' = 'm', 'topic' = 's', 'value.format' = 'json'", "'value.format' = 'avro'"
    )
    bench.compile(again + "CREATE STREAM e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM d;")
    bench.send("d", record["value"])
    bench.settle(bench.start("e"))
    assert bench.values == [{**ROW, "inst": "2024-01-01 00:00:00.005000Z"}]


def test_columns_kept_in_the_key_alone_are_written_and_read_there(bench: AvroBench) -> None:
    only_key = "'key.columns' = 'i8', 'value.columns.exclude' = 'i8'"
    sink = SINK.replace("'value.format'", f"{only_key}, 'value.format'")
    bench.compile(TYPES + sink.format("i8, t"))
    bench.send("s", ROW)
    bench.settle(bench.start("d"))
    assert read_back(bench, "d") == [{"t": "grüße"}]
    assert read_back(bench, "d", MessageField.KEY) == [{"i8": 2**60}]
    (record,) = bench.records
    bench.stop()
    bench.records.clear()
    declared = f"CREATE STREAM d (i8 BIGINT, t VARCHAR) WITH ('value.format' = 'avro', {only_key});"
    bench.compile(declared + "CREATE STREAM e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM d;")
    bench.send("d", record["value"], key=record["key"])
    query = bench.start("e")
    bench.settle(query)
    assert bench.values == [{"i8": 2**60, "t": "grüße"}]
    bench.send("d", record["value"], key=b"\x00")
    assert "key does not begin with the id of a schema" in str(bench.fault(query).params["reason"])
