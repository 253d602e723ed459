"""Tables in a Databricks workspace for lookups, read by one statement of its SQL warehouse, so in one consistent
state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.stores.databricks.admin import DatabricksAdmin
from ds_dagster.stores.databricks.connection import table_of
from ds_dagster.stores.lookup_rows import as_batches, asked, counting, quoted_column, selection

if TYPE_CHECKING:
    import pyarrow


def read_table(
    options: Mapping[str, str],
    path: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    wanted: Wanted = EVERYTHING,
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: connection of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED,
            DATABRICKS_WAREHOUSE_MISSING, LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    yield from as_batches(_rows(options, path, [quoted_column(name) for name, _ in columns], wanted), columns)


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows that match ``wanted``."""
    return int(_rows(options, path, counting(), wanted)[0][0])


def _rows(
    options: Mapping[str, str], path: tuple[str, ...], shown: Sequence[exp.Expr], wanted: Wanted
) -> Sequence[tuple[Any, ...]]:
    admin = DatabricksAdmin(options["store"], options)
    return asked(".".join(path), lambda: admin.select(selection(shown, table_of(path), wanted)))
