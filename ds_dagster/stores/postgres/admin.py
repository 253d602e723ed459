"""Control of a Postgres database: probe, describe tables, list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.errors import error
from ds_dagster.stores.postgres.connection import CONTROL_MILLIS, PostgresAddress, primary_text
from ds_dagster.stores.postgres.tables import LEDGER
from ds_dagster.stores.probing import probed
from ds_dagster.stores.without_records import WithoutRecords

TABLES_QUERY = """
    SELECT n.nspname || '.' || c.relname, greatest(c.reltuples, 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_'
      AND (%(schema)s IS NULL OR (n.nspname = %(schema)s AND c.relname = %(table)s))
    ORDER BY 1
"""
COLUMN_QUERY = """
    SELECT EXISTS (SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                   JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND a.attname = %(column)s
                     AND a.attnum > 0 AND NOT a.attisdropped)
"""


class PostgresAdmin(WithoutRecords):
    """See ``catalog.store.StoreAdmin``; the loader creates tables."""

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.address = PostgresAddress.of(store, settings)
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"PostgresAdmin({self.address.store}, {self.address.shown})"

    def probe(self) -> ProbeResult:
        """Whether the server answers and accepts the login."""
        version = "SELECT current_setting('server_version')"
        return probed(lambda: f"Postgres {self._query(version, {})[0][0]} at {self.address.shown}")

    def describe(self, entity: str) -> EntityFacts | None:
        """A table by ``schema.table``, None if it does not exist; its size is the server's estimate of rows."""
        schema, _, table = entity.rpartition(".")
        rows = self._query(TABLES_QUERY, {"schema": schema or "public", "table": table})
        return EntityFacts(rows[0][0], size=int(rows[0][1])) if rows else None

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Looks for the table, which tests the login; the loader creates it."""
        return self.describe(plan.name) or EntityFacts(plan.name, size=0)

    def entities(self) -> Sequence[EntityFacts]:
        """Tables outside the system's schemas."""
        rows = self._query(TABLES_QUERY, {"schema": None, "table": None})
        return [EntityFacts(name, size=int(size)) for name, size in rows]

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return "POSTGRESQL"

    def select(
        self, query: str, limit: int | None = None
    ) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]:
        """Answer a pull query, read-only.

        Args:
            query: SELECT in Postgres' dialect, printed by the caller.
            limit: most rows to fetch.

        Returns:
            (column name, type name) pairs and rows.
        """
        import psycopg2

        try:
            connection = self._open()
            with connection, connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
                cursor.execute(query)
                rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit)
                codes = [column.type_code for column in cursor.description]
                names = [column.name for column in cursor.description]
                cursor.execute("SELECT oid, format_type(oid, NULL) FROM pg_type WHERE oid = ANY (%s)", (codes,))
                types = dict(cursor.fetchall())
        except psycopg2.Error as problem:
            self.close()
            is_permission = isinstance(problem, psycopg2.errors.InsufficientPrivilege)
            if isinstance(problem, psycopg2.DataError | psycopg2.ProgrammingError) and not is_permission:
                raise error("QUESTION_FAILED", reason=primary_text(problem)) from None
            raise self.address.failure(problem, "answer a query") from None
        return [(name, types.get(code, "")) for name, code in zip(names, codes, strict=True)], rows

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.postgres.entities import PostgresEntities

        return PostgresEntities(self.address)

    def has_column(self, path: Sequence[str], name: str) -> bool:
        """Whether a table (schema, name) has a column."""
        answer = self._query(COLUMN_QUERY, {"schema": path[0], "table": path[1], "column": name})
        return bool(answer[0][0])

    def newest(self, path: Sequence[str]) -> float | None:
        """When a batch was last loaded into a table (seconds since the epoch), None without a batch."""
        from psycopg2 import sql

        ledger = sql.Identifier(path[0], LEDGER)
        query = sql.SQL("SELECT date_part('epoch', max(at)) FROM {} WHERE target = %(table)s").format(ledger)
        newest = self._query(query, {"table": path[1]})[0][0]
        return None if newest is None else float(newest)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self.address.control(CONTROL_MILLIS)
        return self._connection

    def _query(self, statement: Any, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
        connection = self._open()
        import psycopg2

        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())
        except psycopg2.Error as problem:
            failure = self.address.failure(problem, "look at its tables")
            self.close()
            raise failure from None
