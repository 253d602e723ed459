"""CREATE STREAM, CHANGELOG, TABLE with a column list (or one taken from a recorded schema) → Relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.declared import KIND_WORDS, current_store
from ds_dagster.catalog.name_rules import refused_columns, refused_entity
from ds_dagster.catalog.properties.spec import Place, PropertyIndex
from ds_dagster.catalog.properties.tables import check_table_properties
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import StartingPoint, starting_point
from ds_dagster.catalog.records import (
    NULLABLE_KEY,
    Draft,
    Findings,
    check_columns,
    check_timestamp_format,
    event_time,
    record_key,
    value_format,
)
from ds_dagster.catalog.relation import Column, EventTime, RecordKey, Relation
from ds_dagster.catalog.schemas.file_formats import check_files
from ds_dagster.catalog.schemas.relations import (
    ToRecord,
    check_schemas,
    default_format,
    descriptors,
    subject_of,
    unlisted_columns,
)
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.datatypes import is_primitive
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import ColumnDefinition, CreateAsSelect, CreateRelation, RelationKind

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind


TABLES: tuple[RelationKind, ...] = ("table", "materialized_view")
"""Kinds whose columns are columns of a table in their store."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Surroundings that relations are declared in.

    Attributes:
        settings, kinds, index: of the project.
        catalog: its stores.
        entities: properties of CREATE ENTITY, by store and entity.
        recorded: collects the schema subjects of relations without a column list.
    """

    settings: Settings
    kinds: Mapping[str, StoreKind]
    index: PropertyIndex
    catalog: Catalog
    entities: Mapping[tuple[str, str], Mapping[str, PropertyValue]]
    recorded: list[ToRecord]


def pull_for_store(
    statement: CreateRelation | CreateAsSelect,
    place: Place,
    name: QualifiedName,
    settings: Settings,
    catalog: Catalog,
    index: PropertyIndex,
    findings: Findings,
) -> tuple[StoreDefinition | None, Mapping[str, PropertyValue]]:
    """The store of a relation and its converted properties. The property ``store`` is converted first, since the store
    decides which others are allowed."""
    first = index.pull([p for p in statement.properties if p.name == "store"], place)
    findings.extend(first.diagnostics)
    store = findings.collect(
        lambda: current_store(
            name, statement.kind, first.values, statement.origin.context, settings, catalog, statement.name.span
        )
    )
    others = [p for p in statement.properties if p.name != "store"]
    pulled = index.pull(others, place, store.kind if store else None)
    findings.extend(pulled.diagnostics)
    return store, {**first.values, **pulled.values}


def check_holds(kind: StoreKind, relation: RelationKind, store: StoreDefinition, span: Span, *, written: bool) -> None:
    """Refuse a store that cannot hold a relation of that kind.

    Raises:
        UserError: STORE_CANNOT_HOLD with what to write instead.
    """
    able = kind.capabilities
    holds: Mapping[RelationKind, bool] = {
        "stream": able.writes_streams if written else able.reads_streams or able.writes_streams,
        "changelog": able.writes_streams if written else able.reads_streams or able.writes_streams,
        "table": able.writes_tables,
        "materialized_view": able.serves_views,
    }
    if not holds[relation]:
        fixes: Mapping[RelationKind, str] = {
            "stream": "name a streaming store (KAFKA, KINESIS) with 'store' = …, or write CREATE TABLE … AS",
            "changelog": "name a streaming store (KAFKA, KINESIS) with 'store' = …, or write CREATE TABLE … AS",
            "table": "name a table store (POSTGRESQL, SNOWFLAKE, DATABRICKS, DELTA) with 'store' = …, "
            "or write CREATE STREAM or CREATE CHANGELOG",
            "materialized_view": "leave out 'store' for the embedded one, or name a POSTGRESQL store",
        }
        word = KIND_WORDS[relation]
        raise error("STORE_CANNOT_HOLD", span=span, kind=word, store=store.name, type=store.kind, fix=fixes[relation])


def check_parts(kind: StoreKind, draft: Draft) -> None:
    """Refuse a relation without a property that names its entity and has no default.

    Raises:
        UserError: RELATION_PROPERTY_MISSING.
    """
    for name, example in kind.capabilities.required_parts:
        if name not in draft.values:
            raise error(
                "RELATION_PROPERTY_MISSING",
                span=draft.span,
                relation=draft.name,
                name=name,
                type=kind.name,
                example=example,
            )


def entity_of(kind: StoreKind, name: QualifiedName, values: Mapping[str, PropertyValue]) -> str:
    """Name of the entity: from the properties that name it, else their defaults, else the relation's own name."""
    listed = values.get(kind.capabilities.entity_list)
    if listed is not None:
        return str(listed.value)
    parts = kind.capabilities.entity_parts
    if not parts:
        return str(name)
    chosen = [str(values[p].value) if p in values else (default or name.name) for p, default in parts]
    return ".".join(chosen)


def check_names(kind: StoreKind, relation: Relation, findings: Findings) -> None:
    """Report names that the store does not accept: of the relation's entity and of a table's or view's columns."""
    able, values = kind.capabilities, relation.properties
    own = relation.name.name
    named = [str(values[p].value) if p in values else (default or own) for p, default in able.entity_parts]
    parts = named if len(named) > 1 and able.entity_list not in values else [relation.entity]
    wrong = refused_entity(able.entity_rule, relation.store, parts, relation.span)
    columns = refused_columns(able.column_rule, kind.name, relation) if relation.kind in TABLES else None
    for problem in filter(None, (wrong, columns)):
        findings.add(problem)


def declared_relation(
    name: QualifiedName, statement: CreateRelation, ground: Ground, findings: Findings
) -> Relation | None:
    """A relation of CREATE STREAM, CHANGELOG or TABLE. When ``findings`` holds errors, the result is None or must not
    be used."""
    store, values = pull_for_store(statement, "relation", name, ground.settings, ground.catalog, ground.index, findings)
    if not statement.columns and store is not None:
        recorded_columns = recorded(name, statement, store, values, ground, findings)
        if recorded_columns is None:
            return None
        statement = replace(statement, columns=recorded_columns)
    columns, primary_key = _columns(name, statement, findings)
    if store is None:
        return None
    kind = ground.kinds[store.kind]
    span = values["store"].span or statement.name.span if "store" in values else statement.name.span
    findings.collect(lambda: check_holds(kind, statement.kind, store, span, written=False))
    entity = entity_of(kind, name, values)
    values = {**ground.entities.get((store.name, entity), {}), **values}
    draft = Draft(str(name), statement.kind, columns, primary_key, values, statement.name.span)
    check_columns(draft, findings)
    check_upsert_mode(draft, findings)
    check_table_properties(draft, KIND_WORDS[draft.kind], findings)
    findings.collect(lambda: check_parts(kind, draft))
    if findings.failed:
        return None
    format_ = findings.collect(lambda: value_format(draft, default_format(values, "json"))) or "json"
    key = findings.collect(lambda: record_key(draft, format_)) or RecordKey()
    sources = ground.catalog.descriptors
    messages = findings.collect(lambda: descriptors(values, format_, key.format, sources)) or (None, None)
    relation = Relation(
        name=name,
        kind=statement.kind,
        store=store.name,
        entity=entity,
        columns=columns,
        span=statement.name.span,
        origin=statement.origin,
        primary_key=primary_key,
        value_format=format_,
        key=key,
        event_time=findings.collect(lambda: event_time(draft)) or EventTime(),
        start=findings.collect(lambda: starting_point(values, span=draft.span, kind=kind)) or StartingPoint(),
        properties=MappingProxyType(dict(values)),
        value_descriptor=messages[0],
        key_descriptor=messages[1],
        constraints=statement.constraints,
    )
    check_constrained(relation, findings)
    if not findings.failed:
        findings.collect(lambda: check_schemas(relation, kind, store, draft))
    findings.collect(lambda: check_files(relation, kind, draft.span_of("value.format")))
    findings.collect(lambda: check_timestamp_format(relation, values))
    check_names(kind, relation, findings)
    findings.extend(relation_problems(kind, relation))
    return relation


def check_constrained(relation: Relation, findings: Findings) -> None:
    """Refuse constraints of a declared table: nothing would check them, since others write its rows and look-ups read
    them directly."""
    if relation.kind in TABLES and relation.constraints:
        first = relation.constraints[0]
        findings.add(error("CONSTRAINT_OF_TABLE", span=first.span, name=first.name, relation=relation.name.name))


def relation_problems(kind: StoreKind, relation: Relation) -> Sequence[Diagnostic]:
    """Run the store kind's own check of a relation; most kinds have none."""
    check = getattr(kind, "check_relation", None)
    return () if check is None else tuple(check(relation))


def recorded(
    name: QualifiedName,
    statement: CreateRelation,
    store: StoreDefinition,
    values: Mapping[str, PropertyValue],
    ground: Ground,
    findings: Findings,
) -> tuple[ColumnDefinition, ...] | None:
    """The columns of a relation without a column list, from a descriptor or from the project's copy of a schema. None
    if refused; empty if its format has no schema, which is refused later."""
    entity, span = entity_of(ground.kinds[store.kind], name, values), statement.name.span
    values = {**ground.entities.get((store.name, entity), {}), **values}
    wanted = subject_of(values, store, entity, str(name))
    if wanted is not None:
        ground.recorded.append(wanted)
    root, sources = ground.settings.root, ground.catalog.descriptors
    columns = findings.collect(lambda: unlisted_columns(values, wanted, span, sources, root))
    return None if columns is None else tuple(ColumnDefinition(c.name, c.type, c.nullable, span) for c in columns)


def check_upsert_mode(draft: Draft, findings: Findings) -> None:
    """Refuse ``enable.upsert.mode`` on other kinds than changelogs, and FALSE on changelogs."""
    value = draft.values.get("enable.upsert.mode")
    if value is None:
        return
    if draft.kind != "changelog":
        span = value.span
        kind = KIND_WORDS[draft.kind]
        findings.add(
            error("PROPERTY_OF_OTHER_KIND", span=span, name="enable.upsert.mode", kind=kind, kinds="CHANGELOG")
        )
    elif value.value is False:
        reason = "a changelog's records replace one another by key; declare a STREAM to read every record"
        problem = error(
            "PROPERTY_VALUE_NOT_YET", span=value.span, name="enable.upsert.mode", value="false", reason=reason
        )
        findings.add(problem)


def _columns(
    name: QualifiedName, statement: CreateRelation, findings: Findings
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns and primary key; key columns are NOT NULL unless ``primary.key.nullable`` says otherwise."""
    if not statement.columns:
        word = KIND_WORDS[statement.kind]
        findings.add(error("COLUMNS_MISSING", span=statement.name.span, relation=str(name), kind=word))
    if statement.kind == "changelog" and not statement.primary_key:
        findings.add(error("PRIMARY_KEY_MISSING", span=statement.name.span, relation=str(name)))
    columns = tuple(Column(c.name, c.type, c.nullable, c.span) for c in statement.columns)
    draft = Draft(str(name), statement.kind, columns, ())
    key: list[str] = []
    for written in statement.primary_key:
        column = findings.collect(partial(draft.known_column, str(written), "PRIMARY KEY", written.span))
        if column is not None and not is_primitive(column.type):
            problem = error(
                "KEY_COLUMN_TYPE", span=written.span, name=column.name, type=column.type, relation=str(name)
            )
            findings.add(problem)
        if column is not None:
            key.append(column.name)
    strict = not any(p.name == NULLABLE_KEY and p.value is True for p in statement.properties)
    typed = tuple(replace(c, nullable=False) if strict and c.name in key else c for c in columns)
    return typed, tuple(dict.fromkeys(key))
