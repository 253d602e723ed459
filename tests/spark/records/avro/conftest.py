"""A bench whose sources stand on Kafka with a schema registry, and the registry."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import ReadSpec, WriteSpec
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.engine.schemas import known_schemas, with_schemas
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.stores.registry import KINDS
from tests.avro_registry import AvroRegistry
from tests.spark.conftest import Bench, settings_in


def resolvers(used_by: str) -> Any:
    def resolve(value: PropertyValue) -> str:
        return str(value.value)

    return resolve


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def framed(id_: int, schema: Mapping[str, Any] | str, value: Any) -> bytes:
    """A record as Confluent's serializer writes it, by another implementation of Avro than the one that reads it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, id_) + body.getvalue()


class AvroBench(Bench):
    """A bench whose sources stand on Kafka with a schema registry; its sinks are in memory."""

    registry: AvroRegistry
    login = ""

    def compile(self, sql: str) -> LoadedProject:
        text = (
            f"CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = '{self.registry.url}'{self.login});\n"
            "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'nowhere:9092', 'schema_registry.name' = r);\n"
            "CREATE STORE m WITH ('type' = MEMORY);\nUSE STORE k;\n" + sql
        )
        self.project = compile_texts([("test.sql", text)], settings_in(self.folder))
        assert not self.project.errors, "\n".join(error.text() for error in self.project.errors)
        return self.project

    def specs(self, query: BoundQuery, changes: Mapping[str, Any]) -> tuple[dict[str, ReadSpec], dict[str, WriteSpec]]:
        assert self.project is not None
        reads = {}
        for scan in query.scans:
            store = self.project.catalog.store(scan.relation.store)
            spec = KINDS[store.kind].read_spec(store, scan.relation, ReadOptions(), None)
            schemas = known_schemas(spec.schemas, resolvers) if spec.schemas else None
            reads[scan.source_name] = replace(spec, schemas=schemas, **changes)
        store = self.project.catalog.store(query.sink.store)
        write = KINDS[store.kind].write_spec(store, query.sink, query.refresh)
        return reads, {query.name: with_schemas(write, query.sink, resolvers)}

    def send_avro(self, topic: str, id_: int, *values: Any, schema: Any) -> None:
        """Records of a registered schema."""
        self.send(topic, *(framed(id_, schema, value) for value in values))


@pytest.fixture
def registry() -> Iterator[AvroRegistry]:
    with AvroRegistry() as made:
        yield made


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path, registry: AvroRegistry) -> Iterator[AvroBench]:
    made = AvroBench(spark, tmp_path)
    made.registry = registry
    yield made
    made.stop()
