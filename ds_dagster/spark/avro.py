"""Avro records in Confluent's wire format ↔ columns; the work is done by the operators in our jar.

Each record is read by the schema whose id it carries. Ids that were unknown when the query began are looked up once per
JVM while it runs, so a producer may change its schema at any time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.catalog.io_spec import AvroPart, AvroSpec, RegistrySpec, Resolver
from ds_dagster.catalog.relation import Column
from ds_dagster.errors import error
from ds_dagster.spark.columns import field as frame_field
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.typemap import to_spark


@dataclass(frozen=True, slots=True)
class ResolvedAvro:
    """Where the schemas of an entity's records are; ``settings`` is for the JVM and holds secrets."""

    spec: AvroSpec
    settings: str = field(repr=False)


def resolved_avro(spec: AvroSpec | None, resolve: Resolver) -> ResolvedAvro | None:
    """The same with its references resolved, None for none."""
    return None if spec is None else ResolvedAvro(spec, registry_settings(spec.registry, resolve))


def registry_settings(registry: RegistrySpec, resolve: Resolver) -> str:
    """JSON for the JVM: ``name``, ``addresses``, ``user``, ``password``, ``authorities``, ``run``. Nobody prints or
    stores it."""
    values = {name: resolve(value) for name, value in registry.options.items()}
    addresses = [part.strip() for part in values.pop("addresses", "").split(",") if part.strip()]
    return json.dumps({"name": registry.name, "addresses": addresses, "run": uuid.uuid4().hex, **values})


def avro_value(
    session: SparkSession, avro: ResolvedAvro, part: SparkColumn, columns: Sequence[Column], reason: str
) -> SparkColumn:
    """A struct of the columns and of ``reason``: why a value cannot be read, null for a good one."""
    return _decoded(session, avro, avro.spec.value, part, columns, reason, "value")


def avro_key(
    session: SparkSession, avro: ResolvedAvro, part: SparkColumn, columns: Sequence[Column], reason: str
) -> SparkColumn:
    """The same of a key, whose columns may be NULL here: who needs them tests them."""
    loose = [Column(column.name, column.type) for column in columns]
    return _decoded(session, avro, avro.spec.key, part, loose, reason, "key")


def _decoded(
    session: SparkSession,
    avro: ResolvedAvro,
    known: AvroPart | None,
    part: SparkColumn,
    columns: Sequence[Column],
    reason: str,
    kind: Literal["value", "key"],
) -> SparkColumn:
    wanted = spark_types.StructType([spark_types.StructField(c.name, to_spark(c.type), c.nullable) for c in columns])
    id_ = -1 if known is None or known.id is None else known.id
    return operators(session).avro_columns(
        part.cast("binary"), settings=avro.settings, known=id_, columns=wanted, reason=reason, kind=kind
    )


def to_avro(session: SparkSession, columns: Sequence[Column], part: AvroPart) -> SparkColumn:
    """The columns as bytes by a registered schema.

    A row that the schema does not allow fails its batch with AVRO_VALUE_UNWRITABLE.
    """
    if part.id is None:
        raise error("INTERNAL", where=f"no registered schema for {part.subject}")
    types = {column.name: to_spark(column.type) for column in columns}
    struct = sf.struct(*[frame_field(name).cast(type_).alias(name) for name, type_ in types.items()])
    made = spark_types.StructType([spark_types.StructField(name, type_) for name, type_ in types.items()])
    return operators(session).avro_bytes(struct, schema=part.schema, id_=part.id, type_=made, subject=part.subject)
