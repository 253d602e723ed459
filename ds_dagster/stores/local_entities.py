"""Entity statements of the two stores inside this installation: views in SQLite files, and memory."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityColumn, EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.stores.entity_common import TableOperations, not_found, path_invalid, refused, row_record, type_of
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.memory import loader as memory_loader
from ds_dagster.stores.sqlite.reader import open_views, view_columns, view_names
from ds_dagster.stores.sqlite.views import view_path

LEVEL_KINDS = ("database", "schema", "view")
VIEW_PARTS = 3
SHAPE = '"database"."schema"."view"'


class SqliteEntities(TableOperations):
    """Views, by database, schema and name. Entity statements only read them; their query creates and changes them."""

    kind = "SQLITE"

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self._folder = folder

    def path_of(self, relation: Relation) -> EntityPath:
        """The relation's qualified name."""
        return relation.name.parts

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Databases, the schemas of one, or the views of a schema; views that have a file."""
        if len(path) >= VIEW_PARTS:
            raise path_invalid(self.store, path, '"database" or "database"."schema"')
        below = {name.parts[len(path)] for name in view_names(self._folder) if name.parts[: len(path)] == path}
        if path and not below:
            raise not_found(self.store, path, [name.parts[len(path) - 1] for name in view_names(self._folder)])
        kind, level = LEVEL_KINDS[len(path)], len(path) < VIEW_PARTS - 1
        return [EntityNode((*path, part), kind, is_level=level) for part in sorted(below)]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns, number of rows, bytes of the view's file; None without a file."""
        name = self._name(path)
        file = view_path(self._folder, name)
        if not file.is_file():
            return None
        columns = tuple(
            EntityColumn(column.name, type_of(column.type, None), column.type, column.nullable, column.key)
            for column in view_columns(self._folder, name)
        )
        count = exp.select(exp.Count(this=exp.Star())).from_(_table(name))
        with closing(open_views(self._folder, {"main": name})) as connection:
            rows = int(connection.execute(count.sql(dialect="sqlite")).fetchone()[0])
        return EntityDescription(path, "view", EntityFacts(str(name), size=rows), columns, bytes=file.stat().st_size)

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused."""
        raise self._owned("CREATE ENTITY")

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused."""
        raise self._owned("UPDATE ENTITY")

    def drop(self, path: EntityPath) -> None:
        """Refused."""
        raise self._owned("DROP ENTITY")

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Refused."""
        raise self._owned("INSERT INTO ENTITY")

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Some rows."""
        name = self._name(path)
        if not view_path(self._folder, name).is_file():
            raise not_found(self.store, path, [view.name for view in view_names(self._folder)])
        names = [column.name for column in view_columns(self._folder, name)]
        columns = [exp.column(quoted(column)) for column in names]
        text = exp.select(*columns).from_(_table(name)).limit(limit).sql(dialect="sqlite")
        with closing(open_views(self._folder, {"main": name})) as connection:
            rows = connection.execute(text).fetchall()
        return [row_record(dict(zip(names, row, strict=True))) for row in rows]

    def _name(self, path: EntityPath) -> QualifiedName:
        if len(path) != VIEW_PARTS:
            raise path_invalid(self.store, path, SHAPE)
        return QualifiedName(*path)

    def _owned(self, statement: str) -> DsError:
        reason = "a view belongs to the query that fills it"
        fix = "CREATE MATERIALIZED VIEW … AS SELECT makes it, `ds reset` rebuilds it"
        return refused(self.kind, self.store, statement, reason, fix)


class MemoryEntities(TableOperations):
    """Tables that queries of this process wrote. The test runner holds topics."""

    kind = "MEMORY"

    def __init__(self, store: str) -> None:
        self.store = store

    def path_of(self, relation: Relation) -> EntityPath:
        """The entity's name."""
        return (relation.entity,)

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Tables that were written."""
        if path:
            raise path_invalid(self.store, path, "empty: tables in memory have no levels")
        return [EntityNode((name,), "table") for name in self._names()]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns and number of rows; None if no query has written the table."""
        if len(path) != 1:
            raise path_invalid(self.store, path, 'one name: "table"')
        table = memory_loader.TABLES.get((self.store, ".".join(path)))
        if table is None:
            return None
        target = table.target
        columns = tuple(
            EntityColumn(c.name, c.type, c.native_type, c.nullable, c.name in target.primary_key)
            for c in target.columns
        )
        return EntityDescription(path, "table", EntityFacts(".".join(path), size=len(table.rows)), columns)

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused."""
        raise self._by_itself("CREATE ENTITY")

    def drop(self, path: EntityPath) -> None:
        """Delete a table."""
        if memory_loader.TABLES.pop((self.store, ".".join(path)), None) is None:
            raise not_found(self.store, path, self._names())

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Refused."""
        raise self._by_itself("INSERT INTO ENTITY")

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Some rows."""
        if self.describe(path) is None:
            raise not_found(self.store, path, self._names())
        return [row_record(row) for row in memory_loader.table_rows(self.store, ".".join(path))[:limit]]

    def _names(self) -> list[str]:
        return sorted(name for store, name in memory_loader.TABLES if store == self.store)

    def _by_itself(self, statement: str) -> DsError:
        reason = "entities in memory exist as soon as they are used, in test cases"
        return refused(self.kind, self.store, statement, reason, "write `send:` into the steps of a case")


def _table(name: QualifiedName) -> exp.Table:
    return exp.Table(this=quoted(name.name))
