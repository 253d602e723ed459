"""JSON of a registered schema: Confluent's serializer and deserializer at the other end, ids in both places."""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.schemas import HEADERS
from tests.avro_registry import AvroRegistry
from tests.spark.records.avro.conftest import AvroBench
from tests.spark.records.avro.test_avro_write import ROW, TYPES

CLICK = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Click",
    "type": "object",
    "properties": {
        "url": {"type": "string"}, "n": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
    },
    "required": ["url"],
}  # fmt: skip
CLICKS = (
    "CREATE CHANGELOG c (url VARCHAR, n BIGINT, at TIMESTAMP_LTZ, PRIMARY KEY (url)) "
    "WITH ('value.format' = 'json_schema');"
)


def test_what_is_written_is_read_by_confluents_deserializer(bench: AvroBench) -> None:
    """The schema is registered once; the deserializer validates each record by it."""
    bench.compile(
        f"{TYPES}CREATE STREAM d WITH ('value.format' = 'json_schema', 'topic.partitions' = 1, 'topic.replicas' = 1) "
        "AS SELECT * FROM s PARTITION BY i4;"
    )
    query = bench.start("d")
    bench.send("s", ROW, {"i4": 6})
    bench.settle(query)
    with SchemaRegistryClient({"url": bench.registry.url}) as client:
        read = JSONDeserializer(None, schema_registry_client=client)
        full, empty = [read(r["value"], SerializationContext("d", MessageField.VALUE)) for r in bench.records]
        keys = [read(r["key"], SerializationContext("d", MessageField.KEY)) for r in bench.records]
    assert full == {**ROW, "at": "2024-01-01T00:00:00.000001", "inst": "2024-01-01T00:00:00.005000Z"}
    assert empty == {**dict.fromkeys(ROW), "i4": 6}
    assert keys == [{"i4": 5}, {"i4": 6}]
    assert sorted(bench.registry.subjects) == ["d-key", "d-value"]
    schema = json.loads(bench.registry.schemas[bench.registry.subjects["d-value"][0]]["schema"])
    assert (schema["required"], schema["additionalProperties"]) == (["i4"], False)
    records = list(bench.records)
    bench.stop()
    bench.records.clear()
    again = TYPES.replace("STREAM s (", "STREAM d (").replace(
        "'store' = 'm', 'topic' = 's', 'value.format' = 'json'", "'value.format' = 'json_schema'"
    )
    bench.compile(again + "CREATE STREAM e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM d;")
    query = bench.start("e")
    bench.send("d", *(record["value"] for record in records))
    bench.settle(query)
    assert bench.values[0] == {**ROW, "inst": "2024-01-01 00:00:00.005000Z"}


def test_records_of_confluents_serializer_keys_and_bad_ones(bench: AvroBench) -> None:
    bench.compile(CLICKS + "CREATE CHANGELOG d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM c;")
    query = bench.start("d")
    with SchemaRegistryClient({"url": bench.registry.url}) as client:
        key_schema = {"title": "K", "type": "object", "properties": {"url": {"type": "string"}}}
        value = JSONSerializer(json.dumps(CLICK), client)
        key = JSONSerializer(json.dumps(key_schema), client)
        about = SerializationContext("c", MessageField.VALUE)
        named = {u: key({"url": u}, SerializationContext("c", MessageField.KEY)) for u in ("a", "b")}
        for url, n in (("a", 1), ("b", 2), ("a", 3)):
            bench.send("c", value({"url": url, "n": n, "at": "2024-01-01T00:00:00Z"}, about), key=named[url])
    bench.send("c", None, key=named["b"])
    bench.settle(query)
    assert bench.folded() == {'{"url": "a"}': {"url": "a", "n": 3, "at": "2024-01-01 00:00:00.000Z"}}
    bench.send("c", b'{"url": "x"}', key=named["a"])
    fault = bench.fault(query)
    assert fault.condition == "BAD_RECORD"
    assert "the value does not begin with the id of a schema" in str(fault.params["reason"])


def test_frames(spark: SparkSession, registry: AvroRegistry) -> None:
    id_ = registry.register("c-value", CLICK, schemaType="JSON")
    guid = b"\x01" + uuid.UUID(registry.guid(id_)).bytes
    records: list[tuple[bytes | None, Any]] = [
        (struct.pack(">bI", 0, id_) + b"{}", None),
        (b'{"url": "x"}', [("a", None), ("__key_schema_id", guid)]),
        (b'{"url": "x"}', [("a", None), ("__value_schema_id", guid)]),
        (b"{}", [("__value_schema_id", b"\x01")]),
        (None, None),
    ]
    frame = spark.createDataFrame(records, f"part binary, headers {HEADERS}")
    made = operators(spark).payload(sf.col("part"), sf.col("headers"), kind="value")
    rows = [tuple(row) for row in frame.select(made.alias("r")).select("r.*").collect()]
    unframed = "the value does not begin with the id of a schema (a zero byte and four of the id)"
    assert rows == [
        (b"{}", None), (None, unframed), (b'{"url": "x"}', None),
        (None, "the header __value_schema_id holds no id of a schema"), (None, None),
    ]  # fmt: skip
