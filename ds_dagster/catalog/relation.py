"""A relation: the typed view of an entity in a store, and how its records are keyed, timed and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import StartingPoint
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.names import QualifiedName
from ds_dagster.sql.statements import Comment, ConstraintDefinition, Origin, RelationKind

ValueFormat = Literal["json", "primitive", "avro", "protobuf", "json_schema", "csv", "parquet"]
KeyFormat = Literal["none", "json", "primitive", "avro", "protobuf", "json_schema"]
TimestampFormat = Literal["sql", "iso8601"]
SchemaFormatName = Literal["avro", "protobuf", "json_schema"]
SCHEMA_FORMAT_NAMES: Mapping[str, SchemaFormatName] = MappingProxyType(
    {"avro": "avro", "protobuf": "protobuf", "json_schema": "json_schema"}
)
"""Formats whose records need a schema that is not in the statement: in a registry or a descriptor file."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation, in order."""

    name: str
    type: DataType
    nullable: bool = True
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class RecordKey:
    """How a record's key is made or read.

    Attributes:
        format: none (no key), json (object of the columns), avro, protobuf or json_schema (record of the columns) or
            primitive (text/bytes of one column).
        columns: value columns the key is built from (write side: ``key.columns``, PARTITION BY, PRIMARY KEY; read side:
            PRIMARY KEY columns that are also in the value).
        type: ``key.type`` of a declared relation whose key is not in the value.
        exclude: ``value.columns.exclude``: columns kept in the key only.
    """

    format: KeyFormat = "none"
    columns: tuple[str, ...] = ()
    type: DataType | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The Protobuf message of a record's value or key, in a file of the project.

    Attributes:
        source: folded name of its CREATE DESCRIPTOR_SOURCE.
        message: full name, with its package.
        file: absolute path of the compiled descriptors.
    """

    source: str
    message: str
    file: str


@dataclass(frozen=True, slots=True)
class EventTime:
    """``column`` None: the record's own timestamp (arrival). ``format``: how text timestamps of the value are
    written."""

    column: str | None = None
    format: TimestampFormat = "sql"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation after inference.

    Attributes:
        name, kind: see the glossary.
        store: folded name of its store; for a materialized view ``views`` of the settings (``sqlite``) or a store.
        entity: topic, Kinesis stream, table path ("schema.table") or view table in that store.
        columns: in order; empty only for a placeholder whose query did not bind.
        primary_key: of changelogs, keyed views and keyed tables.
        value_format, key, event_time: of the records.
        start: default starting position of the queries that read it.
        properties: converted WITH properties by name (partitions, topic settings, refresh mode, …), inferred ones
            included.
        declared: made by DDL with a column list (filled by others or by INSERT INTO), not by CREATE … AS.
        span: of its name.
        value_descriptor, key_descriptor: of Protobuf records whose message is in a descriptor source.
        like: (store, entity) of the left-most source on the same kind of store, from which a new entity copies what is
            not written; None for declared relations and where there is no such source.
        constraints: what its rows satisfy, as written; each name once.
    """

    name: QualifiedName
    kind: RelationKind
    store: str
    entity: str
    columns: tuple[Column, ...]
    span: Span
    origin: Origin
    primary_key: tuple[str, ...] = ()
    value_format: ValueFormat = "json"
    key: RecordKey = RecordKey()
    event_time: EventTime = EventTime()
    start: StartingPoint = field(default_factory=StartingPoint)
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))
    declared: bool = True
    like: tuple[str, str] | None = None
    value_descriptor: Descriptor | None = None
    key_descriptor: Descriptor | None = None
    constraints: tuple[ConstraintDefinition, ...] = ()

    @property
    def comment(self) -> Comment:
        """The comment above its statement."""
        return self.origin.comment

    @property
    def is_changelog(self) -> bool:
        """Records are upserts and deletes by primary key."""
        return self.kind == "changelog" or (self.kind in ("materialized_view", "table") and bool(self.primary_key))

    def column(self, name: str) -> Column | None:
        """The column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def option(self, name: str) -> str | int | bool | None:
        """The value of a property, references unresolved, or None when it is not set."""
        item = self.properties.get(name)
        return None if item is None else item.value
