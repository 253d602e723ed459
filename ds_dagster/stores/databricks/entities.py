"""Entity statements of a Databricks store: catalogs, schemas and tables of Unity Catalog, through the SQL warehouse."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityColumn, EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.stores.databricks.connection import CONTROL_SECONDS, DIALECT, WorkspaceAddress, table_of
from ds_dagster.stores.entity_common import (
    TableOperations,
    jsonable,
    not_found,
    path_invalid,
    record_invalid,
    row_record,
    row_values,
    shown_path,
    type_of,
)
from ds_dagster.stores.identifiers import quoted

INFORMATION, SYSTEM = "information_schema", "system"
SHAPE = '"catalog"."schema"."table"'
CATALOG, SCHEMA, TABLE = 1, 2, 3
LEVELS = ("table_catalog", "table_schema", "table_name")
LEVEL_KINDS = ("catalog", "schema", "table")


class DatabricksEntities(TableOperations):
    """See ``catalog.entity_operations.EntityOperations``. Lists come from ``system.information_schema``: a catalog or
    schema is listed if it has a table that the login may see."""

    kind = "DATABRICKS"

    def __init__(self, address: WorkspaceAddress) -> None:
        self._address = address
        self.store = address.store

    def path_of(self, relation: Relation) -> EntityPath:
        """Catalog, schema, table."""
        return tuple(relation.entity.split("."))

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Catalogs, the schemas of one, or the tables of a schema."""
        depth = len(path)
        if depth >= TABLE:
            raise path_invalid(self.store, path, '"catalog" or "catalog"."schema"')
        names = sorted({str(row[0]) for row in self._rows(self._listing(path))})
        if path and not names:
            raise not_found(self.store, path)
        level = depth < SCHEMA
        return [EntityNode((*path, name), LEVEL_KINDS[depth], is_level=level) for name in names]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns and number of rows; None if there is no such table."""
        if len(path) != TABLE:
            raise path_invalid(self.store, path, SHAPE)
        if self._address.location(path, CONTROL_SECONDS) is None:
            return None
        count = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(table_of(path))
        rows = int(self._rows(count, path)[0].rows)
        return EntityDescription(path, "table", EntityFacts(".".join(path), size=rows), self._columns(path))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create a schema; tables are created by queries."""
        if len(path) != SCHEMA:
            raise self.table_without_columns() if len(path) == TABLE else path_invalid(self.store, path, SHAPE)
        schema = exp.Create(this=exp.Table(db=quoted(path[1]), catalog=quoted(path[0])), kind="SCHEMA")
        try:
            self._rows(schema, path, f"create {shown_path(path)}")
        except DsError as problem:
            if "SCHEMA_ALREADY_EXISTS" in problem.detail:
                raise error("ENTITY_EXISTS", store=self.store, entity=shown_path(path)) from None
            raise

    def drop(self, path: EntityPath) -> None:
        """Drop a table, or an empty schema. Files of an external table remain."""
        if len(path) == SCHEMA:
            schema = exp.Drop(tables=[exp.Table(db=quoted(path[1]), catalog=quoted(path[0]))], kind="SCHEMA")
            try:
                self._rows(schema, path, f"drop {shown_path(path)}")
            except DsError as problem:
                if problem.condition == "TARGET_SCHEMA_MISSING":
                    raise not_found(self.store, path) from None
                raise
            return
        self._existing(path)
        self._rows(exp.Drop(tables=[table_of(path)], kind="TABLE"), path, f"drop {shown_path(path)}")

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Insert one row; nested values are parsed by ``from_json`` with the column's type. Returns an empty text."""
        entity = self._existing(path)
        columns = {column.name: column for column in entity.columns}
        values = row_values(path, record, list(columns))
        row = exp.select(*(_value(columns[name], value) for name, value in values.items()))
        target = exp.Schema(this=table_of(path), expressions=[quoted(name) for name in values])
        try:
            self._rows(exp.Insert(this=target, expression=row), path, f"insert into {shown_path(path)}")
        except DsError as problem:
            if problem.condition != "STORE_CALL_FAILED" or "CAST" not in problem.detail:
                raise
            raise record_invalid(path, problem.detail) from None
        return ""

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Some rows."""
        self._existing(path)
        rows = self._rows(exp.select(exp.Star()).from_(table_of(path)).limit(limit), path)
        return [row_record(_as_mapping(row)) for row in rows]

    def _existing(self, path: EntityPath) -> EntityDescription:
        entity = self.describe(path)
        if entity is None:
            names = [str(row[0]) for row in self._rows(self._listing(path[:-1]))]
            raise not_found(self.store, path, names)
        return entity

    def _listing(self, path: EntityPath) -> exp.Expr:
        """SELECT of the distinct names below a path."""
        column = exp.column(LEVELS[len(path)])
        query = exp.select(column).distinct().from_(exp.table_("tables", db=INFORMATION, catalog=SYSTEM))
        query = query.where(exp.NEQ(this=exp.column(LEVELS[1]), expression=exp.Literal.string(INFORMATION)))
        return _below(query, path)

    def _columns(self, path: EntityPath) -> tuple[EntityColumn, ...]:
        names = ("column_name", "full_data_type", "is_nullable", "ordinal_position")
        table = exp.table_("columns", db=INFORMATION, catalog=SYSTEM)
        rows = self._rows(_below(exp.select(*map(exp.column, names)).from_(table), path), path)
        ordered = sorted(rows, key=lambda row: int(row.ordinal_position))
        return tuple(
            EntityColumn(
                str(row.column_name),
                type_of(str(row.full_data_type), DIALECT),
                str(row.full_data_type),
                str(row.is_nullable).upper() != "NO",
            )
            for row in ordered
        )

    def _rows(self, statement: exp.Expr, path: EntityPath = (), action: str = "look at its tables") -> list[Any]:
        return self._address.rows(statement, action, ".".join(path), CONTROL_SECONDS)


def _below(statement: exp.Select, path: EntityPath) -> exp.Select:
    for column, part in zip(LEVELS, path, strict=False):
        statement = statement.where(exp.EQ(this=exp.column(column), expression=exp.Literal.string(part)))
    return statement


def _value(column: EntityColumn, value: Any) -> exp.Expr:
    """A JSON value as an expression of the column's type."""
    if value is None:
        return exp.Null()
    if isinstance(value, dict | list):
        text = exp.Literal.string(json.dumps(value, default=jsonable, ensure_ascii=False))
        return exp.func("from_json", text, exp.Literal.string(column.native), dialect=DIALECT)
    text = exp.Literal.string(str(value).lower() if isinstance(value, bool) else str(value))
    return exp.Cast(this=text, to=exp.DataType.build(column.native, dialect=DIALECT))


def _as_mapping(row: Any) -> Mapping[str, Any]:
    return dict(row.asDict())
