"""Control of a Databricks workspace through its SQL warehouse: probe, describe tables, list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.errors import DsError, error
from ds_dagster.stores.databricks.connection import CONTROL_SECONDS, WorkspaceAddress, table_of
from ds_dagster.stores.probing import probed
from ds_dagster.stores.without_records import WithoutRecords

INFORMATION = "information_schema"


class DatabricksAdmin(WithoutRecords):
    """See ``catalog.store.StoreAdmin``; the loader creates tables."""

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.address = WorkspaceAddress.of(store, {**settings, "url": settings["workspace_url"]})

    def __repr__(self) -> str:
        return f"DatabricksAdmin({self.address.store}, {self.address.shown})"

    def probe(self) -> ProbeResult:
        """Whether the warehouse answers and accepts the login. A stopped warehouse does not answer in time."""
        user = exp.select(exp.alias_(exp.CurrentUser(), "name"))
        shown = self.address.shown
        return probed(lambda: f"{self.address.rows(user, 'log in', seconds=CONTROL_SECONDS)[0].name} at {shown}")

    def describe(self, entity: str) -> EntityFacts | None:
        """A table by ``catalog.schema.table``, None if it does not exist; its size is its number of rows."""
        name = entity.split(".")
        if len(name) != 3 or self.address.location(name, CONTROL_SECONDS) is None:
            return None
        count = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(table_of(name))
        rows = self.address.rows(count, "look at its tables", entity, CONTROL_SECONDS)
        return EntityFacts(entity, size=int(rows[0].rows))

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Looks for the table, which tests the login; the loader creates it."""
        return self.describe(plan.name) or EntityFacts(plan.name, size=0)

    def entities(self) -> Sequence[EntityFacts]:
        """Tables that the login may see, by name; :meth:`describe` reports their sizes."""
        columns = [exp.column(f"table_{part}") for part in ("catalog", "schema", "name")]
        statement = (
            exp.select(*columns)
            .from_(exp.table_("tables", db=INFORMATION, catalog="system"))
            .where(exp.NEQ(this=columns[1], expression=exp.Literal.string(INFORMATION)))
        )
        rows = self.address.rows(statement, "look at its tables", seconds=CONTROL_SECONDS)
        return [EntityFacts(name) for name in sorted(".".join(map(str, row)) for row in rows)]

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return "DATABRICKS"

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.databricks.entities import DatabricksEntities

        return DatabricksEntities(self.address)

    def select(self, query: exp.Expr) -> Sequence[tuple[Any, ...]]:
        """Rows of a pull query.

        Args:
            query: SELECT.

        Raises:
            UserError: QUESTION_FAILED. DsError: STORE_….
        """
        try:
            return [tuple(row) for row in self.address.rows(query, "answer a query")]
        except DsError as problem:
            if problem.condition == "STORE_CALL_FAILED":
                raise error("QUESTION_FAILED", reason=problem.detail) from None
            raise

    def close(self) -> None:
        """Nothing is open."""
