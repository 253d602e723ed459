"""Entity statements of a Postgres store: databases, schemas, tables. Statements are composed by ``psycopg2.sql``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityColumn, EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.reading.volume import Volume
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import VARCHAR, ArrayType, DataType
from ds_dagster.errors import error
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
from ds_dagster.stores.postgres.cdc import declared_columns, is_cdc, tables_of
from ds_dagster.stores.postgres.connection import CONTROL_MILLIS, PostgresAddress

if TYPE_CHECKING:
    from psycopg2.sql import Composable

R = TypeVar("R")
DIALECT = "postgres"
SHAPE = '"database"."schema"."table"'
DATABASE, SCHEMA, TABLE = 1, 2, 3
STILL_NEEDED = "2BP01"
"""SQLSTATE of a schema that is not empty, and of a table that others depend on."""
KINDS: Mapping[str, str] = {"r": "table", "p": "table", "v": "view", "m": "view", "f": "table"}
"""``pg_class.relkind`` → kind of a node."""
DATABASES_QUERY = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
SCHEMAS_QUERY = """
    SELECT nspname FROM pg_namespace
    WHERE nspname <> 'information_schema' AND nspname !~ '^pg_' ORDER BY 1
"""
TABLES_QUERY = """
    SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = %s ORDER BY 1
"""
TABLE_QUERY = """
    SELECT c.oid, c.relkind::text, pg_total_relation_size(c.oid),
        CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint ELSE pg_stat_get_live_tuples(c.oid) END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = %s AND c.relname = %s
"""
COLUMNS_QUERY = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, coalesce(a.attnum = ANY (i.indkey), false)
    FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def column_type(native: str) -> DataType:
    """The type to declare a column with; VARCHAR for enumerations, ranges, users' types and others we do not have.

    Args:
        native: as ``format_type`` writes it.
    """
    element = native.removesuffix("[]")
    mapped = None if element.startswith("bit") else type_of(element, DIALECT)
    type_ = VARCHAR if mapped is None else mapped
    return type_ if element == native else ArrayType(type_)


class PostgresEntities(TableOperations):
    """See ``catalog.entity_operations.EntityOperations``. Paths begin at the server: database, schema, table."""

    kind = "POSTGRESQL"

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connections: dict[str, Any] = {}
        self._own = ""
        self.store = address.store

    def path_of(self, relation: Relation) -> EntityPath:
        """The relation's database (the store's by default), schema and table."""
        schema, _, table = relation.entity.partition(".")
        return (str(relation.option("postgresql.db.name") or self.path_of_database()), schema, table)

    def tables_read(self, relation: Relation) -> Mapping[str, tuple[Column, ...]]:
        """Tables (``schema.table``) whose changes a relation reads → the columns that it declares; empty for a relation
        that is loaded."""
        if not is_cdc(relation):
            return {}
        return {".".join(table): declared_columns(relation) for table in tables_of(relation)}

    def columns_of(self, relation: Relation, table: str) -> Sequence[EntityColumn]:
        """The present columns of one of :meth:`tables_read`; empty if the table does not exist."""
        described = self._table_read(relation, table)
        return () if described is None else described.columns

    def _table_read(self, relation: Relation, table: str) -> EntityDescription | None:
        schema, _, name = table.partition(".")
        return self.describe((self.path_of(relation)[0], schema, name))

    def volume(self, relation: Relation) -> Volume | None:
        """Rows and bytes of the tables whose changes a relation reads, as the server estimates them: a query begins
        with a copy of these tables. Bytes include indexes."""
        described = (self._table_read(relation, table) for table in self.tables_read(relation))
        tables = [table for table in described if table is not None]
        if not tables:
            return None
        return Volume(sum(table.facts.size or 0 for table in tables), sum(table.bytes or 0 for table in tables))

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Databases, the schemas of one, or the tables and views of a schema."""
        if len(path) >= TABLE:
            raise path_invalid(self.store, path, '"database" or "database"."schema"')
        if not path:
            rows = self._query("", DATABASES_QUERY)
            return [EntityNode((name,), "database", is_level=True) for (name,) in rows]
        self._check_database(path)
        if len(path) == DATABASE:
            rows = self._query(path[0], SCHEMAS_QUERY)
            return [EntityNode((*path, name), "schema", is_level=True) for (name,) in rows]
        schemas = [name for (name,) in self._query(path[0], SCHEMAS_QUERY)]
        if path[1] not in schemas:
            raise not_found(self.store, path, schemas)
        return [EntityNode((*path, name), KINDS[kind]) for name, kind in self._query(path[0], TABLES_QUERY, path[1:])]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns and primary key; size is the server's estimate of rows, bytes include indexes. None if there is no
        such table."""
        self._check_table(path)
        if path[0] not in self._databases():
            return None
        tables = self._query(path[0], TABLE_QUERY, path[1:])
        if not tables:
            return None
        oid, kind, size, rows = tables[0]
        columns = tuple(
            EntityColumn(name, column_type(native), native, nullable, key)
            for name, native, nullable, key in self._query(path[0], COLUMNS_QUERY, (oid,))
        )
        facts = EntityFacts(".".join(path[1:]), size=int(rows))
        return EntityDescription(path, KINDS[kind], facts, columns, bytes=int(size))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create a database or a schema; tables are created by queries."""
        from psycopg2 import sql

        if len(path) not in (DATABASE, SCHEMA):
            raise self.table_without_columns() if len(path) == TABLE else path_invalid(self.store, path, SHAPE)
        above = [node.path for node in self.children(path[:-1])]
        if path in above:
            raise error("ENTITY_EXISTS", store=self.store, entity=shown_path(path))
        form = "CREATE DATABASE {}" if len(path) == DATABASE else "CREATE SCHEMA {}"
        self._run(self._inside(path), sql.SQL(form).format(sql.Identifier(path[-1])), f"create {shown_path(path)}")

    def drop(self, path: EntityPath) -> None:
        """Drop a table, a view, or an empty schema."""
        from psycopg2 import sql

        if len(path) == DATABASE:
            fix = "use DROP DATABASE of the server itself"
            raise refused(self.kind, self.store, "DROP ENTITY", "it does not drop databases", fix)
        if len(path) == SCHEMA:
            self.children(path)
            statement = sql.SQL("DROP SCHEMA {} RESTRICT").format(sql.Identifier(path[1]))
        else:
            entity = self._existing(path)
            form = "DROP TABLE {}" if entity.kind == "table" else "DROP VIEW {}"
            statement = sql.SQL(form).format(sql.Identifier(*path[1:]))
        self._run(path[0], statement, f"drop {shown_path(path)}")

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Insert one row; the server converts JSON values to the columns' types. Returns an empty text."""
        from psycopg2 import sql

        entity = self._existing(path)
        values = row_values(path, record, [column.name for column in entity.columns])
        names = sql.SQL(", ").join(map(sql.Identifier, values))
        row = sql.Literal(json.dumps(values, default=jsonable, ensure_ascii=False))
        statement = sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM json_populate_record(NULL::{0}, {2})").format(
            sql.Identifier(*path[1:]), names, row
        )
        self._run(path[0], statement, f"insert into {shown_path(path)}", path)
        return ""

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Up to ``limit`` rows, in no defined order."""
        from psycopg2 import sql

        self._existing(path)
        statement = sql.SQL("SELECT row_to_json(r)::text FROM (SELECT * FROM {} LIMIT {}) r").format(
            sql.Identifier(*path[1:]), sql.Literal(limit)
        )
        return [row_record(json.loads(text, parse_float=Decimal)) for (text,) in self._query(path[0], statement)]

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            with suppress(Exception):
                connection.close()
        self._connections.clear()

    def _existing(self, path: EntityPath) -> EntityDescription:
        entity = self.describe(path)
        if entity is None:
            self._check_database(path)
            raise not_found(self.store, path, [node.path[-1] for node in self.children(path[:-1])])
        return entity

    def _check_table(self, path: EntityPath) -> None:
        if len(path) != TABLE:
            raise path_invalid(self.store, path, SHAPE)

    def _check_database(self, path: EntityPath) -> None:
        databases = self._databases()
        if path[0] not in databases:
            raise not_found(self.store, path[:1], databases)

    def _databases(self) -> list[str]:
        return [name for (name,) in self._query("", DATABASES_QUERY)]

    def path_of_database(self) -> str:
        """The database the store connects to."""
        if not self._own:
            self._own = str(self._query("", "SELECT current_database()")[0][0])
        return self._own

    @staticmethod
    def _inside(path: EntityPath) -> str:
        return path[0] if len(path) > DATABASE else ""

    def _open(self, database: str) -> Any:
        """The connection to a database (empty: the store's own); in autocommit, since CREATE DATABASE cannot run in a
        transaction."""
        if database not in self._connections:
            address = replace(self._address, database=database) if database else self._address
            connection = address.control(CONTROL_MILLIS)
            connection.autocommit = True
            self._connections[database] = connection
        return self._connections[database]

    def _query(
        self, database: str, statement: str | Composable, parameters: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        def step(cursor: Any) -> list[tuple[Any, ...]]:
            cursor.execute(statement, tuple(parameters) or None)
            return list(cursor.fetchall())

        return self._guarded(database, step, "look at its entities")

    def _run(self, database: str, statement: Composable, action: str, into: EntityPath = ()) -> None:
        def step(cursor: Any) -> None:
            cursor.execute(statement)

        self._guarded(database, step, action, into)

    def _guarded(self, database: str, step: Callable[[Any], R], action: str, into: EntityPath = ()) -> R:
        connection = self._open(database)
        import psycopg2

        try:
            with connection.cursor() as cursor:
                return step(cursor)
        except psycopg2.Error as problem:
            failure = self._address.failure(problem, action, into[-1] if into else "")
            if connection.closed:
                self.close()
            if problem.pgcode == STILL_NEEDED:
                fix = "first drop its tables, views and types, and the objects that depend on them"
                raise refused(self.kind, self.store, "DROP ENTITY", f"to {action}, it has to be empty", fix) from None
            if into and failure.condition == "TARGET_REJECTS_ROWS":
                raise record_invalid(into, failure.detail) from None
            raise failure from None
