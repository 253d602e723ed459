"""Every format through a real registry: what sinks register and write is read by Confluent's clients and by us."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict
from pyspark.sql import SparkSession

from ds_dagster.errors import UserError
from tests.apicurio import apicurio
from tests.protobuf_files import classes
from tests.spark.records.avro.conftest import AvroBench

pytestmark = pytest.mark.slow

SOURCE = (
    "CREATE STREAM s (id BIGINT NOT NULL, note VARCHAR, m DECIMAL(9,2), day DATE, tags ARRAY<VARCHAR>) "
    "WITH ('store' = 'm', 'topic' = 's', 'value.format' = 'json');\n"
)
SINK = (
    "CREATE STREAM {0} WITH ('value.format' = '{0}', 'topic.partitions' = 1, 'topic.replicas' = 1) "
    "AS SELECT {1} FROM s;"
)
AGAIN = (
    "CREATE STREAM {0} (id BIGINT, note VARCHAR, m DECIMAL(9,2), day DATE, tags ARRAY<VARCHAR>) "
    "WITH ('value.format' = '{0}');\n"
    "CREATE STREAM e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM {0};"
)
ROW = {"id": 7, "note": "grüße", "m": 12.25, "day": "2024-02-29", "tags": ["a"]}


@dataclass
class Address:
    """Where the registry is."""

    url: str


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        yield Address(url)


@pytest.fixture
def real(spark: SparkSession, tmp_path: Path, address: Address) -> Iterator[AvroBench]:
    made = AvroBench(spark, tmp_path)
    made.registry = address  # type: ignore[assignment]
    yield made
    made.stop()


def reader_of(name: str, client: SchemaRegistryClient) -> Any:
    if name == "avro":
        return AvroDeserializer(client)
    if name == "json_schema":
        return JSONDeserializer(None, schema_registry_client=client)
    text = client.get_latest_version(f"{name}-value", fmt="serialized").schema.schema_str
    file = FileDescriptorProto.FromString(base64.b64decode(text))
    file.name = "read.proto"
    return ProtobufDeserializer(classes(file)[name], {"use.deprecated.format": False}, client)


@pytest.mark.parametrize("name", ["avro", "json_schema", "protobuf"])
def test_there_and_back(real: AvroBench, name: str) -> None:
    with SchemaRegistryClient({"url": real.registry.url}) as client:
        real.compile(SOURCE + SINK.format(name, "*"))
        for _ in range(2):
            query = real.start(name)
            real.send("s", ROW)
            real.settle(query)
            real.stop()
        assert len(client.get_versions(f"{name}-value")) == 1, "registered once over a restart"
        read = reader_of(name, client)(real.records[0]["value"], SerializationContext(name, MessageField.VALUE))
        plain = MessageToDict(read) if name == "protobuf" else json.loads(json.dumps(read, default=str))
        assert (str(plain["id"]), plain["note"], plain["tags"]) == ("7", "grüße", ["a"])
        record = real.records[0]["value"]
        real.records.clear()
        real.compile(AGAIN.format(name))
        query = real.start("e")
        real.send(name, record)
        real.settle(query)
        assert real.values == [ROW]
        real.stop()
        real.compile(SOURCE + SINK.format(name, "id, note, tags, m, day, id AS more"))
        real.settle(real.start(name))
        assert len(client.get_versions(f"{name}-value")) == 2


def test_an_incompatible_schema_is_refused_with_the_difference(real: AvroBench) -> None:
    with SchemaRegistryClient({"url": real.registry.url}) as client:
        real.compile(SOURCE + SINK.format("avro", "id").replace("STREAM avro", "STREAM kept"))
        real.prepare("kept")
        client.set_compatibility(subject_name="kept-value", level="BACKWARD")
        changed = SINK.format("avro", "note AS id, CAST(id AS VARCHAR) AS other").replace("STREAM avro", "STREAM kept")
        real.compile(SOURCE + changed)
        with pytest.raises(UserError, match="SCHEMA_INCOMPATIBLE") as caught:
            real.prepare("kept")
        assert "id was long, is null or string" in str(caught.value.params["difference"])
