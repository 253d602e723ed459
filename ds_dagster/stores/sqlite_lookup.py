"""Views in SQLite files as lookups see them: one statement, so whole batches of the job that fills the view."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.catalog.table_properties import RETENTION
from ds_dagster.catalog.tables_read import VIEW
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.stores.lookup_rows import as_batches
from ds_dagster.stores.sqlite_loader import view_error
from ds_dagster.stores.sqlite_reader import open_views, shown_table
from ds_dagster.stores.sqlite_views import FOLDER

if TYPE_CHECKING:
    import pyarrow


def read_table(
    options: Mapping[str, str], path: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: those of the store, the view's name, how long its rows stay.

    Raises:
        ExternalError: LOOKUP_VIEW_MISSING, VIEW_UNREADABLE. UserError: LOOKUP_TABLE_DIFFERS.
    """
    folder, view = Path(options[FOLDER]), QualifiedName.parse(options[VIEW])
    file, table = path
    if not (folder / file).is_file():
        raise error("LOOKUP_VIEW_MISSING", view=options[VIEW])
    names = [name for name, _ in columns]
    with closing(open_views(folder, {"main": view})) as connection:
        try:
            source = shown_table(connection, "main", table, names, int(options.get(RETENTION, "0")))
            shown = exp.select(*(exp.column(exp.to_identifier(name, quoted=True)) for name in names)).from_(source)
            rows = connection.execute(shown.sql(dialect="sqlite")).fetchall()
        except sqlite3.OperationalError as problem:
            if "no such" not in str(problem):
                raise view_error(problem, folder / file) from problem
            raise error("LOOKUP_TABLE_DIFFERS", table=options[VIEW], reason=str(problem)) from problem
    yield from as_batches(rows, columns)
