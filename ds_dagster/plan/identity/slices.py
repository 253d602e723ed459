"""The SQL slice of a query: text that compiles alone to the same plan.

The journal keeps slices, so they carry no secret. A slice has the properties of a store as they are written in the
file, with references unresolved, and without literal secrets and addresses that hold a password.
``project.compile_slice`` prefers the declaration of the store in the project's own files: connection values belong to
the project, not to the job, and a rotated address or password needs no new job. The slice's copy is used if the project
has no such store (the file was moved, the checkout was deleted).

Relations are in a slice as the DDL that inference gives, under their full names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.declared import PUBLIC
from ds_dagster.catalog.declaring.updates import merged
from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.properties.values import REFERENCE
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import QUARANTINE_STORE, QUARANTINE_TOPIC
from ds_dagster.catalog.schemas.descriptors import source_texts
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.secret import SecretDefinition, named_secrets
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.expressions.user_calls import called
from ds_dagster.plan.query import BoundQuery
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import (
    Application,
    ColumnDefinition,
    Context,
    CreateAsSelect,
    CreateDatabase,
    CreateRelation,
    CreateSchema,
    CreateSchemaRegistry,
    CreateSecret,
    CreateStore,
    InsertInto,
    Origin,
    Property,
    UpdateConnection,
    ValueKind,
    WrittenName,
)

LOOKED_UP = frozenset({"materialized_view", "table"})
Piece = tuple[str, Span, Context]
"""Text, position and context of one statement of a slice."""

_CREDENTIALS = re.compile(r"//[^/@\s]*:[^/@\s]*@")


def slice_pieces(query: BoundQuery, catalog: Catalog, index: PropertyIndex) -> tuple[Piece, ...]:
    """Everything a query needs to compile alone: schemas, stores with their secrets and registries, schema texts,
    functions, relations, the query."""
    own = query.statement.origin.application
    filled = {part.sink.name for part in query.parts}
    inputs = [relation if relation.name in filled else _read(relation) for relation in query.inputs]
    relations = list({r.name: r for r in inputs if not own or r.origin.application != own}.values())

    def kind(relation: Relation) -> str:
        return catalog.store(relation.store).kind

    for part in query.parts:
        is_inside = bool(own) and part.sink.origin.application == own
        is_known = is_inside or part.sink.name in {relation.name for relation in relations}
        if part.is_insert and not is_known:
            relations.append(part.sink)
    named_already = {relation.name for relation in relations}
    relations += [late.relation for late in query.late if late.relation.name not in named_already]
    sinks = query.sinks
    stores = [catalog.store(name) for name in dict.fromkeys([r.store for r in (*relations, *sinks, *query.logs)])]
    origin = query.statement.origin
    names = [*(sink.name for sink in sinks), *(relation.name for relation in relations)]
    described = (part for r in (*relations, *sinks) for part in (r.value_descriptor, r.key_descriptor) if part)
    sources = dict.fromkeys(descriptor.source for descriptor in described)
    return (
        *_schemas(names, origin.context, origin.span),
        *_stores(stores, catalog.secrets, index),
        *((text, span, Context()) for text, span in source_texts(sources, catalog.descriptors)),
        *_functions(query, catalog),
        *((relation_ddl(relation, index, kind(relation)), relation.span, Context()) for relation in relations),
        (origin.text, origin.span, origin.context),
    )


def _read(relation: Relation) -> Relation:
    """A relation as a query reads it. Views and tables lose their key: look-ups do not use it, and as DDL it would make
    columns NOT NULL that an outer join or a group made nullable. Results lose their constraints: the query that writes
    them checks them."""
    if not relation.declared:
        others = {n: value for n, value in relation.properties.items() if n not in (QUARANTINE_TOPIC, QUARANTINE_STORE)}
        relation = replace(relation, constraints=(), properties=MappingProxyType(others))
    return replace(relation, primary_key=()) if relation.kind in LOOKED_UP else relation


def _schemas(names: Iterable[QualifiedName], context: Context, span: Span) -> Iterator[Piece]:
    wanted = {(name.database, name.schema): None for name in names}
    if context.database:
        wanted[context.database, context.schema or PUBLIC] = None
    origin = Origin(span, "")
    for database in dict.fromkeys(database for database, _ in wanted):
        statement = CreateDatabase(origin=origin, name=WrittenName((database,), span), if_not_exists=True)
        yield print_statement(statement), span, Context()
    for database, schema in wanted:
        if schema != PUBLIC:
            inside = WrittenName((database,), span)
            name = WrittenName((schema,), span)
            made_schema = CreateSchema(origin=origin, name=name, database=inside, if_not_exists=True)
            yield print_statement(made_schema), span, Context()


def _stores(
    stores: Iterable[StoreDefinition], secrets: Mapping[str, SecretDefinition], index: PropertyIndex
) -> Iterator[Piece]:
    """CREATE STORE of declared stores, after the schema registries and secrets they name; embedded stores need no
    statement."""
    written = [store for store in stores if store.origin.text]
    registries = {store.registry.name: store.registry for store in written if store.registry}
    connections: list[StoreDefinition | RegistryDefinition] = [*registries.values(), *written]
    declared = [(store, _declaration(store, secrets, index)) for store in connections]
    named = dict.fromkeys(name for _, statement in declared for name, _ in named_secrets(statement.properties, index))
    for secret in (secrets[name] for name in named):
        yield secret_ddl(secret, index), secret.span, Context()
    for connection, statement in declared:
        yield print_statement(statement), connection.span, Context()


def _functions(query: BoundQuery, catalog: Catalog) -> Iterator[Piece]:
    """Functions of the user that the query calls, after their sources; jars and modules stay in the project."""
    written = query.statement
    inside = written.statements if isinstance(written, Application) else (written,)
    trees = [statement.body.tree for statement in inside if isinstance(statement, CreateAsSelect | InsertInto)]
    constraints = [c for relation in (*query.inputs, *query.sinks) for c in relation.constraints]
    trees += [constraint.condition for constraint in constraints]
    functions = list(dict.fromkeys(function for tree in trees for function in called(tree, catalog.functions)))
    sources = dict.fromkeys(function.source for function in functions if function.source)
    for origin in (
        *(catalog.functions.sources[name].origin for name in sources),
        *(function.origin for function in functions),
    ):
        yield origin.text, origin.span, origin.context


def _declaration(
    store: StoreDefinition | RegistryDefinition, secrets: Mapping[str, SecretDefinition], index: PropertyIndex
) -> CreateStore | CreateSchemaRegistry:
    """CREATE STORE or CREATE SCHEMA_REGISTRY as written and updated, without properties that are a literal secret or
    name a secret that is not carried."""
    written = parse_statement(store.origin.text, store.span.file)
    if not isinstance(written, CreateStore | CreateSchemaRegistry):
        raise error("INTERNAL", where=f"the declaration of {store.name}")
    parsed = [parse_statement(origin.text, origin.span.file) for origin in store.updates]
    updates = [statement for statement in parsed if isinstance(statement, UpdateConnection)]
    properties = tuple(
        item
        for item in merged(written.properties, updates, index)
        if not _is_secret(item, index)
        and all(name in secrets and secrets[name].is_carried for name, _ in named_secrets([item], index))
    )
    return replace(written, properties=properties, if_not_exists=False)


def secret_ddl(secret: SecretDefinition, index: PropertyIndex) -> str:
    """CREATE SECRET as written, without literal secrets."""
    written = parse_statement(secret.origin.text, secret.span.file)
    if not isinstance(written, CreateSecret):
        raise error("INTERNAL", where=f"the declaration of secret {secret.name}")
    properties = tuple(item for item in written.properties if not _is_secret(item, index))
    return print_statement(replace(written, properties=properties, if_not_exists=False))


def _is_secret(item: Property, index: PropertyIndex) -> bool:
    if not isinstance(item.value, str):
        return False
    if _CREDENTIALS.search(item.value):
        return True
    spec = index.find(item.name)
    if spec is not None and (not spec.secret or (item.kind == "word" and "secret" not in spec.places)):
        return False
    defaults = any(match["default"] for match in REFERENCE.finditer(item.value))
    return defaults or REFERENCE.sub("", item.value) != ""


def relation_ddl(relation: Relation, index: PropertyIndex, kind: str) -> str:
    """CREATE STREAM, CHANGELOG or TABLE that declares an equal relation; ``kind``: of its store; relations of a store
    without records have no properties of records."""
    span = relation.span
    values = {
        name: value.value
        for name, value in relation.properties.items()
        if (spec := index.find(name)) is not None and "relation" in spec.places
    }
    allowed = index.names_at("relation", kind)
    values |= {name: value for name, value in _record_properties(relation).items() if name in allowed}
    declaration = CreateRelation(
        origin=Origin(span, ""),
        kind=relation.kind,
        name=WrittenName(relation.name.parts, span),
        columns=tuple(
            ColumnDefinition(c.name, c.type, c.nullable or c.name in relation.primary_key, span)
            for c in relation.columns
        ),
        primary_key=tuple(WrittenName((name,), span) for name in relation.primary_key),
        constraints=relation.constraints,
        properties=tuple(_property(name, values[name], span) for name in sorted(values)),
    )
    return print_statement(declaration)


def _record_properties(relation: Relation) -> Mapping[str, str | int | bool]:
    """WITH properties with the results of inference about records."""
    properties: dict[str, str | int | bool] = {"store": relation.store}
    if relation.kind not in ("stream", "changelog"):
        return properties
    properties |= {"topic": relation.entity, "value.format": relation.value_format}
    key = relation.key
    if key.format != "none":
        properties["key.format"] = key.format
    if key.columns and key.type is None and relation.kind == "stream":
        properties["key.columns"] = ", ".join('"' + name + '"' for name in key.columns)
    time = relation.event_time
    if time.column is not None:
        properties["timestamp"] = f'"{time.column}"'
    if time.format != "sql":
        properties["timestamp.format"] = time.format
    return properties


def _property(name: str, value: str | int | bool, span: Span) -> Property:
    kind: ValueKind = "string"
    if isinstance(value, bool):
        kind = "boolean"
    elif isinstance(value, int):
        kind = "number"
    return Property(name, value, kind, span, span)
