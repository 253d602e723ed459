"""Tables in Snowflake as lookups see them: one statement, so one consistent state. It wakes the warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.stores.lookup_rows import as_batches, asked
from ds_dagster.stores.snowflake_admin import SnowflakeAdmin
from ds_dagster.stores.snowflake_names import column_name, identifier, shown_path, table
from ds_dagster.stores.snowflake_statements import DIALECT

if TYPE_CHECKING:
    import pyarrow


def read_table(
    options: Mapping[str, str], path: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: those of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED
        (also a table that is not there: Snowflake does not tell them apart), STORE_WAREHOUSE_MISSING,
        LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    wanted = exp.select(*(exp.column(identifier(column_name(name))) for name, _ in columns)).from_(table(path))
    with closing(SnowflakeAdmin(options["store"], options)) as admin:
        rows = asked(shown_path(path), lambda: admin.select(wanted.sql(dialect=DIALECT)))
    yield from as_batches(rows, columns)
