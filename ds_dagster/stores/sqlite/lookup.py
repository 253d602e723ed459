"""Views in SQLite files for lookups, read by one statement, so it sees only whole batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.properties.tables import RETENTION
from ds_dagster.catalog.reading.tables import VIEW
from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import error
from ds_dagster.stores.lookup_rows import constant, counting, parts_as_batches, quoted_column, selection, time_text
from ds_dagster.stores.sqlite.loader import view_error
from ds_dagster.stores.sqlite.reader import open_files, shown_table
from ds_dagster.stores.sqlite.views import FOLDER

if TYPE_CHECKING:
    import pyarrow


FETCHED = 1000
"""Rows fetched at once as Python values: they fit into the processor's caches; with a million at once, each row costs
more than twice as much."""


def read_table(
    options: Mapping[str, str],
    path: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    wanted: Wanted = EVERYTHING,
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: folder of the views, the view's name, its retention.

    Raises:
        ExternalError: LOOKUP_VIEW_MISSING, VIEW_UNREADABLE. UserError: LOOKUP_TABLE_DIFFERS.
    """
    names = [name for name, _ in columns]
    shown = [quoted_column(name) for name in names]
    yield from parts_as_batches(_parts(options, path, names, shown, wanted), columns)


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows that match ``wanted``."""
    names = [comparison.column for comparison in wanted.comparisons]
    return int(next(_parts(options, path, names, counting(), wanted))[0][0])


def _parts(
    options: Mapping[str, str],
    path: tuple[str, ...],
    names: Sequence[str],
    shown: Sequence[exp.Expr],
    wanted: Wanted,
) -> Iterator[Sequence[tuple[Any, ...]]]:
    """The rows of one statement, in parts of :data:`FETCHED`."""
    name, table = path
    file = Path(options[FOLDER]) / name
    if not file.is_file():
        raise error("LOOKUP_VIEW_MISSING", view=options[VIEW])
    needed = list(dict.fromkeys([*names, *(comparison.column for comparison in wanted.comparisons)]))
    with closing(open_files({"main": file})) as connection:
        try:
            source = shown_table(connection, "main", table, needed, int(options.get(RETENTION, "0")))
            text = selection(shown, source, wanted, literal=_literal).sql(dialect="sqlite")
            cursor = connection.execute(text)
            while rows := cursor.fetchmany(FETCHED):
                yield rows
        except sqlite3.OperationalError as problem:
            if "no such" not in str(problem):
                raise view_error(problem, file) from problem
            raise error("LOOKUP_TABLE_DIFFERS", table=options[VIEW], reason=str(problem)) from problem


def _literal(value: Any, type_: Scalar) -> exp.Expr | None:
    """A constant for SQLite: times are texts of fixed width; None for a DECIMAL, which is a number or a text there."""
    if type_.name == "DECIMAL":
        return None
    if isinstance(value, datetime):
        return exp.Literal.string(time_text(value))
    return exp.Literal.string(value.isoformat()) if isinstance(value, date) else constant(value, type_)
