"""Tables in Snowflake for lookups, read by one statement, so in one consistent state. It wakes the warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.lookup_rows import as_batches, asked, counting, selection
from ds_dagster.stores.snowflake.admin import SnowflakeAdmin
from ds_dagster.stores.snowflake.names import column_name, shown_path, table
from ds_dagster.stores.snowflake.statements import DIALECT

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
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED
            (also for a missing table: Snowflake does not tell them apart), STORE_WAREHOUSE_MISSING,
            LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    yield from as_batches(_rows(options, path, [_column(name) for name, _ in columns], wanted), columns)


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows that match ``wanted``."""
    return int(_rows(options, path, counting(), wanted)[0][0])


def _column(name: str) -> exp.Expression:
    return exp.column(quoted(column_name(name)))


def _rows(
    options: Mapping[str, str], path: tuple[str, ...], shown: Sequence[exp.Expr], wanted: Wanted
) -> Sequence[tuple[Any, ...]]:
    text = selection(shown, table(path), wanted, column=_column).sql(dialect=DIALECT)
    with closing(SnowflakeAdmin(options["store"], options)) as admin:
        return asked(shown_path(path), lambda: admin.select(text))
