"""Records with external schemas ↔ columns; operators in our jar do the work.

In Confluent's wire formats, each record is read with the schema whose id it has, as a prefix or in a header. Ids that
were unknown when the query began are looked up once per JVM while it runs, so a producer may change its schema at any
time. With a descriptor file of the project, Protobuf records are bare messages without an id.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.catalog.io_spec import RegistrySpec, Resolver, SchemaPart, SchemaSpec
from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas.registry import CERTIFICATES
from ds_dagster.errors import error
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.columns import field as frame_field
from ds_dagster.spark.records.typemap import to_spark

Part = Literal["value", "key"]
HEADERS = "array<struct<key:string,value:binary>>"
"""Type of a record's headers."""


@dataclass(frozen=True, slots=True)
class ResolvedSchemas:
    """Schemas of an entity's records. ``settings``: of the registry, for the JVM; holds secrets; empty if there is no
    registry."""

    spec: SchemaSpec
    settings: str = field(repr=False)

    def part(self, part: Part) -> SchemaPart | None:
        """The schema of value or key, None if its format needs no schema."""
        return self.spec.value if part == "value" else self.spec.key


def resolved_schemas(spec: SchemaSpec | None, resolve: Resolver) -> ResolvedSchemas | None:
    """The schemas with resolved references; None if ``spec`` is None."""
    if spec is None:
        return None
    return ResolvedSchemas(spec, registry_settings(spec.registry, resolve) if spec.registry is not None else "")


def registry_settings(registry: RegistrySpec, resolve: Resolver) -> str:
    """JSON for the JVM: ``name``, ``addresses``, ``run`` and the other options of a :class:`RegistrySpec`. Paths of
    certificates are replaced by the files' text, so that remote executors need no file. Holds secrets: never print or
    store it.

    Raises:
        UserError: REGISTRY_CERTIFICATE_UNREADABLE.
    """
    values = {name: resolve(value) for name, value in registry.options.items()}
    addresses = [part.strip() for part in values.pop("addresses", "").split(",") if part.strip()]
    try:
        values |= {name: Path(values[name]).read_text("utf-8") for name in CERTIFICATES if name in values}
    except (OSError, UnicodeDecodeError) as problem:
        raise error("REGISTRY_CERTIFICATE_UNREADABLE", registry=registry.name, detail=str(problem)) from problem
    return json.dumps({"name": registry.name, "addresses": addresses, "run": uuid.uuid4().hex, **values})


@dataclass(frozen=True, slots=True)
class Raw:
    """An undecoded part of records: its bytes and, if the source has them, the record's headers."""

    session: SparkSession
    bytes: SparkColumn
    headers: SparkColumn | None
    part: Part

    @property
    def all_headers(self) -> SparkColumn:
        """The headers, or a null of their type."""
        return sf.lit(None).cast(HEADERS) if self.headers is None else self.headers


def decoded_part(raw: Raw, schemas: ResolvedSchemas, columns: Sequence[Column], reason: str) -> SparkColumn:
    """A struct of the columns and of ``reason``: why the part cannot be read, or null.

    For Avro and Protobuf; for JSON see :func:`payload`. Columns of a key may be NULL here; callers check those that
    they need.
    """
    part = schemas.part(raw.part)
    if part is None:
        raise error("INTERNAL", where=f"no schema for the {raw.part}")
    fields = [spark_types.StructField(c.name, to_spark(c.type), c.nullable or raw.part == "key") for c in columns]
    wanted = spark_types.StructType(fields)
    jar = operators(raw.session)
    if part.file:
        return jar.protobuf_message(
            raw.bytes.cast("binary"),
            raw.all_headers,
            descriptors=part.schema,
            message=part.message,
            columns=wanted,
            reason=reason,
            kind=raw.part,
        )
    read = jar.avro_columns if part.format == "avro" else jar.protobuf_columns
    return read(
        raw.bytes.cast("binary"),
        raw.all_headers,
        settings=schemas.settings,
        schema_id=-1 if part.id is None else part.id,
        columns=wanted,
        reason=reason,
        kind=raw.part,
    )


def payload(raw: Raw) -> SparkColumn:
    """A struct of ``payload``, the part without its schema id, and ``reason``, why there is no payload, or null."""
    return operators(raw.session).payload(raw.bytes.cast("binary"), raw.all_headers, kind=raw.part)


def encoded(session: SparkSession, columns: Sequence[Column], part: SchemaPart) -> SparkColumn:
    """The columns as bytes of Avro or Protobuf.

    A row that the schema does not allow fails its batch with AVRO_VALUE_UNWRITABLE, PROTOBUF_VALUE_UNWRITABLE.
    """
    types = {column.name: to_spark(column.type) for column in columns}
    struct = sf.struct(*[frame_field(name).cast(type_).alias(name) for name, type_ in types.items()])
    row_type = spark_types.StructType([spark_types.StructField(name, type_) for name, type_ in types.items()])
    jar = operators(session)
    if part.format == "avro":
        return jar.avro_bytes(struct, schema=part.schema, id_=_id(part), type_=row_type, subject=part.subject)
    id_ = -1 if part.file else _id(part)
    return jar.protobuf_bytes(
        struct, descriptors=part.schema, message=part.message, id_=id_, type_=row_type, subject=part.subject
    )


def framed(json_text: SparkColumn, part: SchemaPart) -> SparkColumn:
    """JSON with its schema id as prefix, in Confluent's wire format."""
    head = b"\0" + _id(part).to_bytes(4, "big")
    return sf.concat(sf.lit(head), json_text.cast("binary"))


def _id(part: SchemaPart) -> int:
    if part.id is None:
        raise error("INTERNAL", where=f"no registered schema for {part.subject}")
    return part.id
