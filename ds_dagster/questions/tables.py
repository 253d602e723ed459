"""Rows of views and tables as Arrow, from the readers of their stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import TableRead
from ds_dagster.catalog.reading.tables import VIEW, table_read
from ds_dagster.catalog.reading.wanted import Wanted
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.questions.arrow import table_of
from ds_dagster.questions.binding import Question
from ds_dagster.questions.narrowing import Reading, readings
from ds_dagster.questions.relations import table_name
from ds_dagster.runtime.connecting import resolver

if TYPE_CHECKING:
    import pyarrow

MOST_VALUES = 20_000_000
"""Most values (rows times columns) read from one relation, about 1 GB of memory; more is refused."""
READABLE = frozenset({"sqlite", "postgres", "snowflake", "databricks", "deltalake"})
"""Kinds of storage that questions can read."""
UNCLEAR = ("LOOKUP_TABLE_DIFFERS", "STORE_PERMISSION_DENIED")
"""Conditions that stores raise for a table that does not exist, but also for other reasons."""
OF_LOADS = ("shared",)
"""Options that only loaders use (``shared``: several queries fill the table); readers do not accept them."""


def read_tables(
    project: LoadedProject, question: Question, most_values: int = MOST_VALUES
) -> Mapping[str, pyarrow.Table]:
    """The rows that a question reads, by the names of its tables.

    Raises:
        NotYetError: QUESTION_STORE_UNREADABLE.
        UserError: QUESTION_TOO_LARGE, VIEW_MISSING, TABLE_NOT_LOADED.
        DsError: the reader of a store fails.
    """
    wanted = readings(question)
    return {
        table_name(relation): _read(project, relation, wanted[table_name(relation)], most_values)
        for relation in question.relations
    }


def _read(project: LoadedProject, relation: Relation, reading: Reading, most_values: int) -> pyarrow.Table:
    return _rows(project, relation, read_of(project, relation), reading, most_values)


def read_whole(project: LoadedProject, relation: Relation, read: TableRead, most_values: int) -> pyarrow.Table:
    """All rows of a relation, with all its columns.

    Args:
        project: with the store.
        relation: with the columns of the stored rows.
        read: how to read it, see :func:`read_of`; its path may be that of another version.
        most_values: most rows times columns.

    Raises:
        UserError: QUESTION_TOO_LARGE, VIEW_MISSING, TABLE_NOT_LOADED.
        DsError: the store fails.
    """
    reading = Reading(tuple(column.name for column in relation.columns), Wanted())
    return _rows(project, relation, read, reading, most_values)


def _rows(
    project: LoadedProject, relation: Relation, read: TableRead, reading: Reading, most_values: int
) -> pyarrow.Table:
    resolve = resolver(project.settings, relation.store)
    options = {name: resolve(value) for name, value in read.options.items() if name not in OF_LOADS}
    types = {column.name: column.type for column in relation.columns}
    columns = tuple((name, types[name]) for name in reading.columns)
    most = max(most_values // len(columns), 1)
    limit = reading.wanted.limit
    request = Wanted(reading.wanted.comparisons, most + 1 if limit is None else min(limit, most + 1))
    module, _, function = read.reader.partition(":")
    reader = import_module(module)
    try:
        batches = getattr(reader, function)(
            options, read.path, tuple((name, str(type_)) for name, type_ in columns), request
        )
        table = table_of(_until(batches, most), columns)
        if table.num_rows > most:
            rows = reader.count_rows(options, read.path, Wanted(reading.wanted.comparisons))
            raise error("QUESTION_TOO_LARGE", relation=relation.name.name, rows=rows, most=most, columns=len(columns))
    except DsError as problem:
        raise _missing(project, relation, problem) from problem
    return table


def _until(batches: Any, most: int) -> Any:
    """Batches until they have more than ``most`` rows."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        if rows > most:
            return


def read_of(project: LoadedProject, relation: Relation) -> TableRead:
    """How to read a relation.

    Raises:
        NotYetError: QUESTION_STORE_UNREADABLE.
    """
    kind = kind_of_store(project, relation)
    if kind.capabilities.storage_kind not in READABLE:
        raise error("QUESTION_STORE_UNREADABLE", relation=relation.name.name, type=kind.name)
    return table_read(kind, project.catalog.store(relation.store), relation)


def _missing(project: LoadedProject, relation: Relation, problem: DsError) -> DsError:
    """VIEW_MISSING or TABLE_NOT_LOADED, if a store's error means that the view or table does not exist."""
    if problem.condition == "LOOKUP_VIEW_MISSING":
        return error("VIEW_MISSING", view=str(relation.name))
    if problem.condition not in UNCLEAR or _exists(project, relation):
        return problem
    table = ".".join(read_of(project, relation).path)
    return error("TABLE_NOT_LOADED", table=table, store=relation.store, relation=relation.name.name)


def _exists(project: LoadedProject, relation: Relation) -> bool:
    with closing(store_admin(project, relation.store, resolver(project.settings, relation.store))) as admin:
        try:
            return admin.describe(relation.entity) is not None
        except DsError:
            return True


def newest_batch(project: LoadedProject, relation: Relation) -> float | None:
    """When a view or table was last written (seconds since the epoch), None if unknown."""
    newest = NEWEST.get(kind_of_store(project, relation).capabilities.storage_kind)
    return None if newest is None else newest(project, relation)


def _newest_in_file(project: LoadedProject, relation: Relation) -> float | None:
    import sqlite3
    from pathlib import Path

    from ds_dagster.stores.sqlite.reader import open_views
    from ds_dagster.stores.sqlite.views import FOLDER

    store = project.catalog.store(relation.store)
    folder = Path(resolver(project.settings, store.name)(store.properties[FOLDER]))
    try:
        connection = open_views(folder, {"main": relation.name})
    except DsError:
        return None
    try:
        newest = connection.execute("SELECT max(at) FROM ds_ledger").fetchone()[0]
    except sqlite3.Error:
        return None
    finally:
        connection.close()
    return None if newest is None else float(newest)


def _newest_in_postgres(project: LoadedProject, relation: Relation) -> float | None:
    from ds_dagster.stores.postgres.admin import PostgresAdmin

    read = read_of(project, relation)
    resolve = resolver(project.settings, relation.store)
    try:
        options = {name: resolve(value) for name, value in read.options.items() if name not in (*OF_LOADS, VIEW)}
        with closing(PostgresAdmin(relation.store, options)) as admin:
            return admin.newest(read.path)
    except DsError:
        return None


NEWEST: Mapping[str, Callable[[LoadedProject, Relation], float | None]] = MappingProxyType(
    {"sqlite": _newest_in_file, "postgres": _newest_in_postgres}
)
"""Kind of storage → function that returns when a relation was last written."""
