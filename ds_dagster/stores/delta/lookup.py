"""Delta tables for lookups: the newest version, read by delta-rs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.errors import error
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.query import open_table, select
from ds_dagster.stores.lookup_rows import as_batches, asked, counting, quoted_column, selection

if TYPE_CHECKING:
    import pyarrow

TABLE = "looked_up"


def read_table(
    options: Mapping[str, str],
    path: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    wanted: Wanted = EVERYTHING,
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: connection of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED. UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED,
            LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    yield from as_batches(_rows(options, path, [quoted_column(name) for name, _ in columns], wanted), columns)


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows that match ``wanted``."""
    return int(_rows(options, path, counting(), wanted)[0][0])


def _rows(
    options: Mapping[str, str], path: tuple[str, ...], shown: Sequence[exp.Expr], wanted: Wanted
) -> Sequence[tuple[Any, ...]]:
    address = LakeAddress.of(options["store"], options)
    table = open_table(address, address.place(*path))
    if table is None:
        raise error("LOOKUP_TABLE_DIFFERS", table="/".join(path), reason="there is no table")
    text = selection(shown, exp.table_(TABLE), wanted).sql(dialect="postgres")
    return asked("/".join(path), lambda: select(address, {TABLE: table}, text))
