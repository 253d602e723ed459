"""The SQL slice of a query: text that compiles alone to the same plan.

A slice is what the journal keeps, so it carries no secret. Of a store it carries the properties as they are written
in the file, references unresolved, without every literal secret and every address that holds a password.
``project.compile_slice`` prefers the declaration of the store that stands in the project's own files when it
compiles: connection values belong to the project, not to the job, and a rotated address or password needs no new job.
The slice's copy counts where the project has no such store (the file was moved away, the checkout is gone).

Relations are carried as the DDL that inference arrived at, under their full names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declared import PUBLIC
from ds_dagster.catalog.properties import PropertyIndex
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schema_registry import RegistryDefinition
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.values import REFERENCE
from ds_dagster.diagnostics import Span
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import (
    ColumnDefinition,
    Context,
    CreateDatabase,
    CreateRelation,
    CreateSchema,
    CreateSchemaRegistry,
    CreateStore,
    InsertInto,
    Origin,
    Property,
    ValueKind,
    WrittenName,
)

Piece = tuple[str, Span, Context]
"""Text, place and context of one statement of a slice."""

_CREDENTIALS = re.compile(r"//[^/@\s]*:[^/@\s]*@")


def slice_pieces(query: BoundQuery, catalog: Catalog, index: PropertyIndex) -> tuple[Piece, ...]:
    """Everything a query needs to compile alone, in an order people read: schemas, stores, relations, the query."""
    relations = list({scan.relation.name: scan.relation for scan in query.scans}.values())
    if isinstance(query.statement, InsertInto) and query.sink.name not in {r.name for r in relations}:
        relations.append(query.sink)
    stores = [catalog.store(name) for name in dict.fromkeys([r.store for r in relations] + [query.sink.store])]
    origin = query.statement.origin
    names = [query.sink.name, *(relation.name for relation in relations)]
    return (
        *_schemas(names, origin.context, origin.span),
        *_stores(stores, index),
        *((relation_ddl(relation, index), relation.span, Context()) for relation in relations),
        (origin.text, origin.span, origin.context),
    )


def _schemas(names: Iterable[QualifiedName], context: Context, span: Span) -> Iterator[Piece]:
    wanted = {(name.database, name.schema): None for name in names}
    if context.database:
        wanted[context.database, context.schema or PUBLIC] = None
    origin = Origin(span, "")
    for database in dict.fromkeys(database for database, _ in wanted):
        made = CreateDatabase(origin=origin, name=WrittenName((database,), span), if_not_exists=True)
        yield print_statement(made), span, Context()
    for database, schema in wanted:
        if schema != PUBLIC:
            inside = WrittenName((database,), span)
            name = WrittenName((schema,), span)
            made_schema = CreateSchema(origin=origin, name=name, database=inside, if_not_exists=True)
            yield print_statement(made_schema), span, Context()


def _stores(stores: Iterable[StoreDefinition], index: PropertyIndex) -> Iterator[Piece]:
    """CREATE STORE of the stores that were written, behind the schema registries they name; embedded ones need none."""
    written = list(stores)
    for registry in {store.registry.name: store.registry for store in written if store.registry}.values():
        yield store_ddl(registry, index), registry.span, Context()
    for store in written:
        if store.origin.text:
            yield store_ddl(store, index), store.span, Context()


def store_ddl(store: StoreDefinition | RegistryDefinition, index: PropertyIndex) -> str:
    """CREATE STORE or CREATE SCHEMA_REGISTRY as written, without literal secrets."""
    written = parse_statement(store.origin.text, store.span.file)
    assert isinstance(written, CreateStore | CreateSchemaRegistry)
    kept = tuple(item for item in written.properties if not _is_secret(item, index))
    return print_statement(replace(written, properties=kept, if_not_exists=False))


def _is_secret(item: Property, index: PropertyIndex) -> bool:
    if not isinstance(item.value, str):
        return False
    if _CREDENTIALS.search(item.value):
        return True
    spec = index.find(item.name)
    if spec is not None and not spec.secret:
        return False
    defaults = any(match["default"] for match in REFERENCE.finditer(item.value))
    return defaults or REFERENCE.sub("", item.value) != ""


def relation_ddl(relation: Relation, index: PropertyIndex) -> str:
    """CREATE STREAM, CHANGELOG or TABLE that declares an equal relation."""
    span = relation.span
    values = {
        name: value.value
        for name, value in relation.properties.items()
        if (spec := index.find(name)) is not None and "relation" in spec.places
    }
    values |= _record_properties(relation)
    made = CreateRelation(
        origin=Origin(span, ""),
        kind=relation.kind,
        name=WrittenName(relation.name.parts, span),
        columns=tuple(
            ColumnDefinition(c.name, c.type, c.nullable or c.name in relation.primary_key, span)
            for c in relation.columns
        ),
        primary_key=tuple(WrittenName((name,), span) for name in relation.primary_key),
        properties=tuple(_property(name, values[name], span) for name in sorted(values)),
    )
    return print_statement(made)


def _record_properties(relation: Relation) -> Mapping[str, str | int | bool]:
    """WITH properties that say what inference found out about the records."""
    found: dict[str, str | int | bool] = {"store": relation.store}
    if relation.kind not in ("stream", "changelog"):
        return found
    found |= {"topic": relation.entity, "value.format": relation.value_format}
    key = relation.key
    if key.format != "none":
        found["key.format"] = key.format
    if key.columns and key.type is None and relation.kind == "stream":
        found["key.columns"] = ", ".join('"' + name + '"' for name in key.columns)
    time = relation.event_time
    if time.column is not None:
        found["timestamp"] = f'"{time.column}"'
    if time.format != "sql":
        found["timestamp.format"] = time.format
    return found


def _property(name: str, value: str | int | bool, span: Span) -> Property:
    kind: ValueKind = "string"
    if isinstance(value, bool):
        kind = "boolean"
    elif isinstance(value, int):
        kind = "number"
    return Property(name, value, kind, span, span)
