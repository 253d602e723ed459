"""Entity statements of a Snowflake store: databases, schemas, tables. Names fold as everywhere in Snowflake stores: a
plain lower-case part is the upper-case name there (``names.py``)."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityColumn, EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import BIGINT, DataType
from ds_dagster.errors import DsError, error
from ds_dagster.stores.entity_common import (
    TableOperations,
    jsonable,
    not_found,
    path_invalid,
    record_invalid,
    refused,
    row_record,
    row_values,
    shown_path,
    type_of,
)
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.snowflake.names import column_name, split_path, table
from ds_dagster.stores.snowflake.statements import DIALECT
from ds_dagster.stores.snowflake.tables import is_ours

if TYPE_CHECKING:
    from ds_dagster.stores.snowflake.admin import SnowflakeAdmin

SHAPE = '"database"."schema"."table"'
DATABASE, SCHEMA, TABLE = 1, 2, 3
OWN_SCHEMA, OWN_DATABASES = "INFORMATION_SCHEMA", ("SNOWFLAKE", "SNOWFLAKE_SAMPLE_DATA")
WHOLE_NUMBER = "NUMBER(38,0)"
"""Snowflake's type for every type of whole numbers; BIGINT for us."""
SEMI_STRUCTURED = ("VARIANT", "OBJECT", "ARRAY")


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of SHOW: the objects, their scope, kind of the nodes."""

    show: str
    scope: str
    kind: str


LEVELS = (_Level("DATABASES", "", "database"), _Level("SCHEMAS", "DATABASE", "schema"), _Level("OBJECTS", "SCHEMA", ""))


class SnowflakeEntities(TableOperations):
    """See ``catalog.entity_operations.EntityOperations``. Listing and describing do not wake a warehouse; inserting and
    sampling do."""

    kind = "SNOWFLAKE"

    def __init__(self, admin: SnowflakeAdmin) -> None:
        self._admin = admin
        self.store = admin.address.store

    def path_of(self, relation: Relation) -> EntityPath:
        """Database, schema and table, as Snowflake stores their names."""
        return split_path(relation.entity)

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Databases, the schemas of one, or the tables and views of a schema; at most 10,000, Snowflake's limit of one
        answer."""
        place = self._place(path)
        if len(place) >= TABLE:
            raise path_invalid(self.store, path, '"database" or "database"."schema"')
        self._check_levels(place)
        level = LEVELS[len(place)]
        rows = [(row["name"], level.kind or row["kind"].lower()) for row in self._show(level, place)]
        shown = sorted((name, kind) for name, kind in rows if not _is_own(name, len(place)))
        return [EntityNode((*place, name), kind, is_level=bool(level.kind)) for name, kind in shown]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns; rows and bytes by Snowflake's own count. None if there is no such table."""
        place = self._table_place(path)
        if not self._has_levels(place[:-1]):
            return None
        row = next((row for row in self._show(LEVELS[SCHEMA], place[:-1]) if row["name"] == place[-1]), None)
        if row is None:
            return None
        columns = tuple(
            EntityColumn(row["name"], _type(row["type"]), row["type"], row["null?"] == "Y", row["primary key"] == "Y")
            for row in self._query(exp.Describe(this=table(place), kind="TABLE"))
        )
        size = row.get("bytes")
        facts = EntityFacts(".".join(place), size=int(row["rows"] or 0))
        return EntityDescription(place, row["kind"].lower(), facts, columns, None if size is None else int(size))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create a database or a schema; tables are created by queries."""
        place = self._place(path)
        if len(place) not in (DATABASE, SCHEMA):
            raise self.table_without_columns() if len(place) == TABLE else path_invalid(self.store, path, SHAPE)
        if place in [node.path for node in self.children(place[:-1])]:
            raise error("ENTITY_EXISTS", store=self.store, entity=shown_path(place))
        kind = "DATABASE" if len(place) == DATABASE else "SCHEMA"
        self._query(exp.Create(this=_level(place), kind=kind))

    def drop(self, path: EntityPath) -> None:
        """Drop a table, a view, or an empty schema."""
        place = self._place(path)
        if len(place) == DATABASE:
            fix = "use DROP DATABASE of Snowflake itself"
            raise refused(self.kind, self.store, "DROP ENTITY", "it does not drop databases", fix)
        if len(place) == SCHEMA:
            if self.children(place):
                fix = "drop its tables first"
                raise refused(self.kind, self.store, "DROP ENTITY", f"{shown_path(place)} is not empty", fix)
            self._query(exp.Drop(tables=[_level(place)], kind="SCHEMA"))
            return
        entity = self._existing(place)
        self._query(exp.Drop(tables=[table(place)], kind=entity.kind.upper()))

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Insert one row; nested values go through ``PARSE_JSON``. Returns an empty text."""
        entity = self._existing(self._table_place(path))
        columns = {column.name: column for column in entity.columns}
        written = row_values(path, _folded(path, record), list(columns))
        select = exp.select(*(_value(columns[name], value) for name, value in written.items()))
        target = exp.Schema(this=table(entity.path), expressions=[quoted(name) for name in written])
        try:
            self._query(exp.Insert(this=target, expression=select))
        except DsError as problem:
            if problem.condition == "TARGET_REJECTS_ROWS":
                raise record_invalid(path, problem.detail) from None
            raise
        return ""

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Some rows."""
        entity = self._existing(self._table_place(path))
        names = [column.name for column in entity.columns]
        columns = [exp.alias_(exp.Column(this=quoted(name)), f"c{i}") for i, name in enumerate(names)]
        rows = self._query(exp.select(*columns).from_(table(entity.path)).limit(limit))
        return [row_record(dict(zip(names, row.values(), strict=True))) for row in rows]

    def _place(self, path: EntityPath) -> tuple[str, ...]:
        return tuple(map(column_name, path))

    def _table_place(self, path: EntityPath) -> tuple[str, ...]:
        if len(path) != TABLE:
            raise path_invalid(self.store, path, SHAPE)
        return self._place(path)

    def _existing(self, place: EntityPath) -> EntityDescription:
        entity = self.describe(place)
        if entity is None:
            raise not_found(self.store, place, [node.path[-1] for node in self.children(place[:-1])])
        return entity

    def _check_levels(self, place: EntityPath) -> None:
        for depth in range(len(place)):
            names = [row["name"] for row in self._show(LEVELS[depth], place[:depth])]
            if place[depth] not in names:
                raise not_found(self.store, place[: depth + 1], names)

    def _has_levels(self, place: EntityPath) -> bool:
        return all(
            part in [row["name"] for row in self._show(LEVELS[depth], place[:depth])]
            for depth, part in enumerate(place)
        )

    def _show(self, level: _Level, place: EntityPath) -> list[dict[str, Any]]:
        scope = {"scope": _level(place), "scope_kind": level.scope} if level.scope else {}
        return self._query(exp.Show(this=level.show, **scope))

    def _query(self, statement: exp.Expr) -> list[dict[str, Any]]:
        return self._admin._query(statement.sql(dialect=DIALECT))


def _level(place: EntityPath) -> exp.Table:
    """``"DATABASE"`` or ``"DATABASE"."SCHEMA"``."""
    if len(place) == DATABASE:
        return exp.Table(this=quoted(place[0]))
    return exp.Table(this=quoted(place[1]), db=quoted(place[0]))


def _is_own(name: str, depth: int) -> bool:
    return (name in OWN_DATABASES, name == OWN_SCHEMA, is_ours(name))[depth]


def _type(native: str) -> DataType | None:
    return BIGINT if native == WHOLE_NUMBER else type_of(native, DIALECT)


def _folded(path: EntityPath, record: NewRecord) -> NewRecord:
    """The record with column names as Snowflake stores them."""
    if record.value is None:
        return record
    try:
        values = json.loads(record.value)
    except ValueError as problem:
        raise record_invalid(path, f"it is not valid JSON ({problem})") from None
    if isinstance(values, dict):
        values = {column_name(name): value for name, value in values.items()}
    return NewRecord(json.dumps(values, ensure_ascii=False), record.key)


def _value(column: EntityColumn, value: Any) -> exp.Expr:
    """A JSON value as an expression of the column's type."""
    if value is None:
        return exp.Null()
    name = column.native.partition("(")[0]
    if name in SEMI_STRUCTURED or isinstance(value, dict | list):
        return exp.ParseJSON(this=exp.Literal.string(json.dumps(value, default=jsonable, ensure_ascii=False)))
    text = exp.Literal.string(str(value).lower() if isinstance(value, bool) else str(value))
    return exp.Cast(this=text, to=exp.DataType.build(column.native, dialect=DIALECT))
