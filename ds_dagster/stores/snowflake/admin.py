"""Control of a Snowflake account: probe, describe tables, list them. Only :meth:`SnowflakeAdmin.select` wakes the
warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlglot
from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.errors import error
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.probing import probed
from ds_dagster.stores.snowflake.connection import CONTROL_SECONDS, SnowflakeAddress, driver
from ds_dagster.stores.snowflake.names import shown_path, split_path
from ds_dagster.stores.snowflake.statements import DIALECT, printed
from ds_dagster.stores.snowflake.tables import is_ours
from ds_dagster.stores.without_records import WithoutRecords

OWN_SCHEMAS = ("INFORMATION_SCHEMA",)
OWN_DATABASES = ("SNOWFLAKE", "SNOWFLAKE_SAMPLE_DATA")
"""Databases of Snowflake itself."""
PATH_PARTS = 3
QUESTION_SECONDS = 300
"""Timeout of one answer."""


class SnowflakeAdmin(WithoutRecords):
    """See ``catalog.store.StoreAdmin``; the loader creates tables."""

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.address = SnowflakeAddress.of(store, settings)
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"SnowflakeAdmin({self.address.store}, {self.address.shown})"

    def probe(self) -> ProbeResult:
        """Whether the account answers, accepts the login with its role, and the role sees the warehouse."""

        def attempt() -> str:
            version = self._query("SELECT CURRENT_VERSION() AS VERSION")[0]["version"]
            self._check_warehouse()
            return f"Snowflake {version} at {self.address.shown}"

        return probed(attempt)

    def describe(self, entity: str) -> EntityFacts | None:
        """A table by ``database.schema.table`` as Snowflake's SQL writes it, None if there is none; its size is
        Snowflake's own count of rows."""
        path = split_path(entity)
        if len(path) != PATH_PARTS:
            return None
        place = exp.Table(this=quoted(path[1]), db=quoted(path[0]))
        shown = exp.Show(this="OBJECTS", like=exp.Literal.string(path[2]), scope=place, scope_kind="SCHEMA")
        tables = self._tables(shown)
        return next((facts for facts in tables if facts.name == shown_path(path)), None)

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Looks for the table, which tests the login; the loader creates it."""
        return self.describe(plan.name) or EntityFacts(plan.name, size=0)

    def entities(self) -> Sequence[EntityFacts]:
        """Tables that the role may see (at most 10,000, Snowflake's limit of one answer), without the loader's own
        tables."""
        tables = self._tables(sqlglot.parse_one("SHOW OBJECTS IN ACCOUNT", dialect=DIALECT))
        return sorted((facts for facts in tables if not is_ours(facts.name)), key=lambda facts: facts.name)

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return "SNOWFLAKE"

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.snowflake.entities import SnowflakeEntities

        return SnowflakeEntities(self)

    def select(self, query: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a pull query, which wakes the warehouse.

        Args:
            query: SELECT in Snowflake's dialect.

        Raises:
            UserError: QUESTION_FAILED. DsError: STORE_….
        """
        connector = driver()
        connection = self.address.connect(seconds=QUESTION_SECONDS)
        try:
            rows: list[tuple[Any, ...]] = connection.cursor().execute(query).fetchall()
            return rows
        except connector.errors.ProgrammingError as problem:
            failure = self.address.failure(problem, "answer a query")
            if failure.condition in ("STORE_CALL_FAILED", "TARGET_REJECTS_ROWS"):
                raise error("QUESTION_FAILED", reason=failure.detail) from None
            raise failure from None
        except connector.errors.Error as problem:
            raise self.address.failure(problem, "answer a query") from None
        finally:
            with suppress(Exception):
                connection.close(retry=False)

    def close(self) -> None:
        """End the session."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close(retry=False)

    def _check_warehouse(self) -> None:
        """Check that the role sees the warehouse.

        Raises:
            UserError: STORE_WAREHOUSE_MISSING.
        """
        wanted = split_path(self.address.warehouse)[-1]
        rows = self._query(printed(exp.Show(this="WAREHOUSES", like=exp.Literal.string(wanted))))
        if wanted not in {row["name"] for row in rows}:
            raise error(
                "STORE_WAREHOUSE_MISSING",
                store=self.address.store,
                warehouse=self.address.warehouse,
                user=self.address.username or "(the token's user)",
            )

    def _tables(self, show: exp.Expr) -> list[EntityFacts]:
        rows = [row for row in self._query(printed(show)) if row["kind"] == "TABLE"]
        return [
            EntityFacts(shown_path((row["database_name"], row["schema_name"], row["name"])), size=int(row["rows"] or 0))
            for row in rows
            if row["schema_name"] not in OWN_SCHEMAS and row["database_name"] not in OWN_DATABASES
        ]

    def _query(self, statement: str) -> list[dict[str, Any]]:
        """Rows by folded column name."""
        try:
            if self._connection is None:
                self._connection = self.address.connect(seconds=CONTROL_SECONDS)
            cursor = self._connection.cursor()
            cursor.execute(statement)
            names = [column[0].lower() for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except driver().errors.Error as problem:
            failure = self.address.failure(problem, "look at its tables")
            self.close()
            raise failure from None
