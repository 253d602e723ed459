"""Tables in a Databricks workspace as lookups see them: one statement of its SQL warehouse, so one consistent state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.stores.databricks_admin import DatabricksAdmin
from ds_dagster.stores.databricks_connection import table_of
from ds_dagster.stores.lookup_rows import as_batches, asked

if TYPE_CHECKING:
    import pyarrow


def read_table(
    options: Mapping[str, str], path: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: those of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED,
        DATABRICKS_WAREHOUSE_MISSING, LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    names = [exp.column(exp.to_identifier(name, quoted=True)) for name, _ in columns]
    wanted = exp.select(*names).from_(table_of(path))
    admin = DatabricksAdmin(options["store"], options)
    yield from as_batches(asked(".".join(path), lambda: admin.select(wanted)), columns)
