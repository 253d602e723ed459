"""Delta tables as lookups see them: the newest version, read by delta-rs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.errors import error
from ds_dagster.stores.delta_connection import LakeAddress
from ds_dagster.stores.delta_query import open_table, select
from ds_dagster.stores.lookup_rows import as_batches, asked

if TYPE_CHECKING:
    import pyarrow

TABLE = "looked_up"


def read_table(
    options: Mapping[str, str], path: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: those of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED,
        LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    address = LakeAddress.of(options["store"], options)
    found = open_table(address, address.place(*path))
    if found is None:
        raise error("LOOKUP_TABLE_DIFFERS", table="/".join(path), reason="there is no table")
    names = [exp.column(exp.to_identifier(name, quoted=True)) for name, _ in columns]
    text = exp.select(*names).from_(exp.table_(TABLE)).sql(dialect="postgres")
    yield from as_batches(asked("/".join(path), lambda: select(address, {TABLE: found}, text)), columns)
