"""Requests to a schema registry before a query starts: the newest schemas of its sources, and ids for its sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from ds_dagster.catalog.io_spec import RegistrySpec, Resolver, SchemaPart, SchemaSpec, WriteSpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import FORMATS, Named, described, with_parts
from ds_dagster.errors import error
from ds_dagster.stores.schema_registry import SchemaRegistry

Resolvers = Callable[[str], Resolver]
"""Name of the user of values → a resolver for that user."""


@contextmanager
def _connected(registry: RegistrySpec | None, resolvers: Resolvers) -> Iterator[SchemaRegistry | None]:
    if registry is None:
        yield None
        return
    with closing(SchemaRegistry(registry, resolvers(f"schema registry {registry.name}"))) as client:
        yield client


def known_schemas(spec: SchemaSpec, resolvers: Resolvers) -> SchemaSpec:
    """The spec with the ids of the newest schemas and with the descriptors of the project's files. The query uses the
    defaults and names of these schemas while it runs.

    Raises:
        DsError: :class:`SchemaRegistry` refuses.
        UserError: DESCRIPTOR_FILE_INVALID.
    """

    def known_part(registry: SchemaRegistry | None, part: SchemaPart | None) -> SchemaPart | None:
        if part is None or part.file or registry is None:
            return described(part) if part is not None and part.file else part
        latest = registry.latest(part.subject, FORMATS[part.format].type)
        return replace(part, id=latest.id, schema=latest.schema, version=latest.version) if latest else part

    with _connected(spec.registry, resolvers) as registry:
        return replace(spec, value=known_part(registry, spec.value), key=known_part(registry, spec.key))


def with_schemas(write: WriteSpec, sink: Relation, resolvers: Resolvers) -> WriteSpec:
    """The spec with the ids of the sink's schemas; each schema is registered if it is new under its subject.

    The newest version of a subject is the base of the next one: fields that still fit remain unchanged.

    Raises:
        DsError: :class:`SchemaRegistry` refuses.
        UserError: :attr:`SchemaFormat.sink` refuses; DESCRIPTOR_FILE_INVALID.
    """
    if write.schemas is None:
        return write
    with _connected(write.schemas.registry, resolvers) as registry:
        schemas = with_parts(write.schemas, sink, lambda part, named: _registered(registry, part, named))
    return replace(write, schemas=schemas)


def _registered(registry: SchemaRegistry | None, part: SchemaPart, named: Named) -> SchemaPart:
    if part.file or registry is None:
        return described(part)
    format_ = FORMATS[part.format]
    latest = registry.latest(part.subject, format_.type)
    if latest is not None and latest.has_references:
        detail = "its newest version references other subjects; such a schema can be read but not extended"
        raise error("SCHEMA_INVALID", registry=registry.name, subject=part.subject, detail=detail)
    base = latest.schema if latest else ""
    schema = format_.sink(part.subject, *named, base, None)
    message = format_.message(schema)
    if latest is not None and format_.same(latest.schema, schema):
        return replace(part, id=latest.id, schema=schema, message=message)
    id_ = registry.register(part.subject, schema, lambda: format_.difference(base, schema), format_.type)
    return replace(part, id=id_, schema=schema, message=message)
