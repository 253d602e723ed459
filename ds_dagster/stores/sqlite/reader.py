"""Reads materialized views from their SQLite files: typed columns and read-only connections over several views at
once."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from sqlglot import exp

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.probing import probed
from ds_dagster.stores.sqlite.loader import has_column, now_millis, view_error
from ds_dagster.stores.sqlite.statements import shown_rows
from ds_dagster.stores.sqlite.versions import MARK
from ds_dagster.stores.sqlite.views import SUFFIX, view_path
from ds_dagster.stores.without_records import WithoutRecords

READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: its SQL type as text (``VARCHAR``, ``ARRAY<VARCHAR>``), as the query declared it."""

    name: str
    type: str
    nullable: bool
    key: bool


def view_columns(folder: Path, view: QualifiedName) -> tuple[ViewColumn, ...]:
    """Columns of a view in order.

    Raises:
        UserError: VIEW_MISSING. ExternalError: VIEW_UNREADABLE.
    """
    connection = open_views(folder, {"main": view})
    try:
        rows = connection.execute(
            "SELECT name, type, nullable, key_position FROM ds_columns ORDER BY position"
        ).fetchall()
    except sqlite3.Error as problem:
        raise view_error(problem, view_path(folder, view)) from problem
    finally:
        connection.close()
    if not rows:
        raise error("VIEW_MISSING", view=str(view))
    return tuple(ViewColumn(name, type_, bool(nullable), key is not None) for name, type_, nullable, key in rows)


def view_names(folder: Path) -> list[QualifiedName]:
    """Views that have a file, sorted; without versions that do not serve."""
    names = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}") if MARK not in path.name)
    return [QualifiedName(*(unquote(part) for part in name.split("."))) for name in names]


def open_views(folder: Path, views: Mapping[str, QualifiedName]) -> sqlite3.Connection:
    """A read-only connection over several views.

    Args:
        folder: ``<state>/views``.
        views: database alias inside the connection → view; the first one is ``main``, whatever its alias. A view's
            table has the view's name. SQLite attaches up to ten files.

    Raises:
        UserError: VIEW_MISSING. ExternalError: VIEW_UNREADABLE.
    """
    paths = {alias: view_path(folder, view) for alias, view in views.items()}
    for alias, path in paths.items():
        if not path.is_file():
            raise error("VIEW_MISSING", view=str(views[alias]))
    return open_files(paths)


def open_files(paths: Mapping[str, Path]) -> sqlite3.Connection:
    """As :func:`open_views`, over existing files (also of versions that do not serve): alias → file; the first one is
    ``main``.

    Raises:
        ExternalError: VIEW_UNREADABLE.
    """
    first, *others = paths.values()
    try:
        connection = sqlite3.connect(_uri(first), uri=True, timeout=READ_SECONDS, check_same_thread=False)
        connection.execute("SELECT 1 FROM ds_columns LIMIT 1").fetchall()
        for alias, path in zip(list(paths)[1:], others, strict=True):
            connection.execute("ATTACH DATABASE ? AS ?", (_uri(path), alias))
    except sqlite3.Error as problem:
        raise view_error(problem, first) from problem
    connection.execute("PRAGMA query_only=ON")
    return connection


def shown_table(
    connection: sqlite3.Connection, schema: str, view: str, columns: Sequence[str], retention_millis: int
) -> exp.Table | exp.Subquery:
    """A view as a source of FROM: its rows within the retention.

    Args:
        connection: of :func:`open_views`.
        schema: the alias of the view's database in the connection.
        view: name of the view.
        columns: to show.
        retention_millis: retention of its rows, 0 for none. If the view's query has not run with a retention yet, all
            rows are shown.
    """
    table = exp.Table(this=quoted(view), db=quoted(schema))
    if not retention_millis or not has_column(connection, view, CHANGED_AT, schema):
        return table
    return shown_rows(table, columns, now_millis() - retention_millis)


def _uri(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"


def _check_file(path: Path) -> None:
    """Raises: ExternalError VIEW_UNREADABLE for a file that is no database, or that this process may not write."""
    try:
        with closing(sqlite3.connect(_uri(path), uri=True, timeout=READ_SECONDS)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as problem:
        if not os.path.lexists(path):
            return  # a version that was dropped since its folder was listed
        raise view_error(problem, path) from problem
    if not os.access(path, os.W_OK):  # opening it here would end this process's locks on it
        raise error("VIEW_UNREADABLE", view=path.name, detail="this process may not write it")


class SqliteAdmin(WithoutRecords):
    """Looks at the folder of views (see ``catalog.store.StoreAdmin``)."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder

    def probe(self) -> ProbeResult:
        """Whether views can be written: the folder, or the one in which the first view creates it, accepts a file, and
        each view's file is a database that this process may write."""
        return probed(self._examine)

    def _examine(self) -> str:
        parent = next(place for place in (self.folder, *self.folder.parents) if place.exists())
        try:
            with tempfile.TemporaryFile(dir=parent):
                pass
        except OSError as problem:
            reason = f"{parent} cannot be written ({problem.strerror})"
            raise error("STORE_FOLDER_INVALID", store=self.store, address=self.folder, reason=reason) from problem
        files = sorted(self.folder.glob(f"*{SUFFIX}"))
        for file in files:
            _check_file(file)
        return f"{len(files)} files of views in {self.folder}" if files else f"no views yet in {self.folder}"

    def describe(self, entity: str) -> EntityFacts | None:
        """Number of rows of a view, None while it has no file. ``entity`` is its qualified name."""
        name = QualifiedName.parse(entity)
        path = view_path(self.folder, name)
        if not path.is_file():
            return None
        connection = open_views(self.folder, {"main": name})
        try:
            table = exp.Table(this=quoted(name.name))
            count = exp.select(exp.Count(this=exp.Star())).from_(table)
            rows = connection.execute(count.sql(dialect="sqlite")).fetchone()[0]
        except sqlite3.Error as problem:
            raise view_error(problem, path) from problem
        finally:
            connection.close()
        return EntityFacts(entity, size=int(rows))

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Does nothing but look: the loader creates the file."""
        return self.describe(plan.name) or EntityFacts(plan.name, size=0)

    def entities(self) -> Sequence[EntityFacts]:
        """All views that have a file."""
        return [facts for name in view_names(self.folder) if (facts := self.describe(str(name))) is not None]

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return "SQLITE"

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.local_entities import SqliteEntities

        return SqliteEntities(self.store, self.folder)

    def close(self) -> None:
        """Nothing is open."""
