"""What a query asks a schema registry once, before it starts: the newest schemas of what it reads, an id for what it
writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from ds_dagster.catalog.avro import difference, key_part, parse_avro, sink_schema, value_part
from ds_dagster.catalog.io_spec import AvroPart, AvroSpec, Resolver, WriteSpec
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.errors import error
from ds_dagster.stores.schema_registry import SchemaRegistry

Resolvers = Callable[[str], Resolver]
"""Who needs values → what resolves them."""


def _connected(avro: AvroSpec, resolvers: Resolvers) -> closing[SchemaRegistry]:
    return closing(SchemaRegistry(avro.registry, resolvers(f"schema registry {avro.registry.name}")))


def known_schemas(avro: AvroSpec, resolvers: Resolvers) -> AvroSpec:
    """With the ids of the newest schemas, whose defaults and aliases hold while the query runs.

    Raises:
        DsError: what :class:`SchemaRegistry` refuses.
    """

    def known(registry: SchemaRegistry, part: AvroPart | None) -> AvroPart | None:
        latest = registry.latest(part.subject) if part else None
        return replace(part, id=latest.id) if part and latest else part

    with _connected(avro, resolvers) as registry:
        return replace(avro, value=known(registry, avro.value), key=known(registry, avro.key))


def with_schemas(write: WriteSpec, sink: Relation, resolvers: Resolvers) -> WriteSpec:
    """With the ids of the sink's schemas, each registered if it is new under its subject.

    The newest version of a subject is the base of its next one: fields that fit stay as they are written there.

    Raises:
        DsError: what :class:`SchemaRegistry` refuses; UserError AVRO_NAME_INVALID, AVRO_TYPE_UNWRITABLE.
    """
    if write.avro is None:
        return write
    with _connected(write.avro, resolvers) as registry:
        value = _registered(registry, write.avro.value, *value_part(sink))
        made = _registered(registry, write.avro.key, *key_part(sink))
    return replace(write, avro=replace(write.avro, value=value, key=made))


def _registered(
    registry: SchemaRegistry, part: AvroPart | None, name: str, columns: Sequence[Column]
) -> AvroPart | None:
    if part is None:
        return None
    latest = registry.latest(part.subject)
    if latest is not None and latest.has_references:
        detail = "its newest version is made of schemas of other subjects, which can be read but not extended"
        raise error("SCHEMA_INVALID", registry=registry.name, subject=part.subject, detail=detail)
    base = latest.schema if latest else ""
    schema = json.dumps(sink_schema(part.subject, name, columns, base))
    if latest is not None and parse_avro(latest.schema) == parse_avro(schema):
        return replace(part, id=latest.id, schema=schema)
    id_ = registry.register(part.subject, schema, lambda: difference(base, schema))
    return replace(part, id=id_, schema=schema)
