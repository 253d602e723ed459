"""Tables in Postgres as lookups see them: one statement, so one consistent state, read in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from ds_dagster.catalog.table_properties import CHANGED_AT, RETENTION
from ds_dagster.catalog.tables_read import VIEW
from ds_dagster.errors import DsError, error
from ds_dagster.stores.postgres_admin import PostgresAdmin
from ds_dagster.stores.postgres_connection import PostgresAddress, primary_text

if TYPE_CHECKING:
    import pyarrow

AS_TEXT = ("VARCHAR", "DECIMAL")
"""Types the driver gives in a form of its own (DECIMAL) or of several (texts of any kind, uuid, enum)."""


def read_table(
    options: Mapping[str, str], path: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: those of the store.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED, LOOKUP_VIEW_MISSING.
        UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED, LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    import adbc_driver_manager
    import pyarrow as pa

    address = PostgresAddress.of(options["store"], options)
    _check_view(options, path)
    statement = _select(address, path, columns, _retention(options, path))
    with closing(address.bulk()) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(statement)
            yield from cursor.fetch_record_batch()
        except (adbc_driver_manager.Error, pa.ArrowException) as problem:
            raise _failure(address, problem, ".".join(path)) from None


def _check_view(options: Mapping[str, str], path: tuple[str, ...]) -> None:
    """A view is made by its query, which may not have begun."""
    if VIEW not in options:
        return
    with closing(PostgresAdmin(options["store"], options)) as admin:
        if admin.describe(".".join(path)) is None:
            raise error("LOOKUP_VIEW_MISSING", view=options[VIEW])


def _retention(options: Mapping[str, str], path: tuple[str, ...]) -> int:
    """How long rows of a view stay (milliseconds), 0 for ever, and where its query has not run with that yet."""
    if RETENTION not in options:
        return 0
    with closing(PostgresAdmin(options["store"], options)) as admin:
        return int(options[RETENTION]) if admin.has_column(path, CHANGED_AT) else 0


def _failure(address: PostgresAddress, problem: Exception, table: str) -> DsError:
    found = address.failure(problem, "look up", table=table)
    if found.condition != "TARGET_CHANGED":
        return found
    return error("LOOKUP_TABLE_DIFFERS", table=table, reason=" ".join(primary_text(problem).split()))


def _select(
    address: PostgresAddress, path: tuple[str, ...], columns: tuple[tuple[str, str], ...], retention: int
) -> str:
    from psycopg2 import sql

    def wanted(name: str, type_: str) -> sql.Composable:
        column = sql.Identifier(name)
        as_text = type_.partition("(")[0] in AS_TEXT
        return sql.SQL("{}::text AS {}").format(column, column) if as_text else column

    shown = sql.SQL(", ").join(wanted(name, type_) for name, type_ in columns)
    made = sql.SQL("SELECT {} FROM {}").format(shown, sql.Identifier(*path))
    if retention:
        young = sql.SQL("{} WHERE {} > now() - {} * interval '1 millisecond'")
        made = young.format(made, sql.Identifier(CHANGED_AT), sql.Literal(retention))
    with closing(address.control()) as connection:
        return str(made.as_string(connection))
