"""Tables in Postgres for lookups, read in bulk by one statement, so in one consistent state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.catalog.properties.tables import CHANGED_AT, RETENTION
from ds_dagster.catalog.reading.tables import VIEW
from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.errors import DsError, error
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.lookup_rows import counting, quoted_column, selection
from ds_dagster.stores.postgres.admin import PostgresAdmin
from ds_dagster.stores.postgres.connection import PostgresAddress, primary_text

if TYPE_CHECKING:
    import pyarrow

AS_TEXT = ("VARCHAR", "DECIMAL")
"""Types that are cast to text, since the driver gives them in its own form (DECIMAL) or in several (text, uuid,
enum)."""


def read_table(
    options: Mapping[str, str],
    path: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    wanted: Wanted = EVERYTHING,
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: connection of the store; for a view its name and retention.

    Raises:
        ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED, LOOKUP_VIEW_MISSING.
        UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED, LOOKUP_TABLE_DIFFERS, STORE_DRIVER_MISSING.
    """
    yield from _batches(options, path, [_shown(name, type_) for name, type_ in columns], wanted)


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows that match ``wanted``."""
    return sum(int(batch.column(0)[0].as_py()) for batch in _batches(options, path, counting(), wanted))


def _batches(
    options: Mapping[str, str], path: tuple[str, ...], shown: Sequence[exp.Expr], wanted: Wanted
) -> Iterator[pyarrow.RecordBatch]:
    import adbc_driver_manager
    import pyarrow as pa

    address = PostgresAddress.of(options["store"], options)
    _check_view(options, path)
    statement = _select(path, shown, wanted, _retention(options, path))
    with closing(address.bulk()) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(statement)
            yield from cursor.fetch_record_batch()
        except (adbc_driver_manager.Error, pa.ArrowException) as problem:
            raise _failure(address, problem, ".".join(path)) from None


def _check_view(options: Mapping[str, str], path: tuple[str, ...]) -> None:
    """Raise LOOKUP_VIEW_MISSING if the query of a view has not created it yet."""
    if VIEW not in options:
        return
    with closing(PostgresAdmin(options["store"], options)) as admin:
        if admin.describe(".".join(path)) is None:
            raise error("LOOKUP_VIEW_MISSING", view=options[VIEW])


def _retention(options: Mapping[str, str], path: tuple[str, ...]) -> int:
    """Retention of a view's rows in milliseconds; 0 without one, or if its query has not run with a retention yet."""
    if RETENTION not in options:
        return 0
    with closing(PostgresAdmin(options["store"], options)) as admin:
        return int(options[RETENTION]) if admin.has_column(path, CHANGED_AT) else 0


def _failure(address: PostgresAddress, problem: Exception, table: str) -> DsError:
    fault = address.failure(problem, "look up", table=table)
    if fault.condition != "TARGET_CHANGED":
        return fault
    return error("LOOKUP_TABLE_DIFFERS", table=table, reason=" ".join(primary_text(problem).split()))


def _shown(name: str, type_: str) -> exp.Expr:
    column = quoted_column(name)
    if type_.partition("(")[0] not in AS_TEXT:
        return column
    return exp.alias_(exp.cast(column, exp.DataType.Type.TEXT), name, quoted=True)


def _select(path: tuple[str, ...], shown: Sequence[exp.Expr], wanted: Wanted, retention: int) -> str:
    names: list[exp.Identifier | None] = [quoted(part) for part in path]
    catalog, db, this = (None, None, *names)[-3:]
    query = selection(shown, exp.Table(this=this, db=db, catalog=catalog), wanted)
    if retention:
        age = exp.Interval(this=exp.Literal.string(str(retention)), unit=exp.var("MILLISECONDS"))
        oldest = exp.Sub(this=exp.Anonymous(this="now", expressions=[]), expression=age)
        query = query.where(exp.GT(this=quoted_column(CHANGED_AT), expression=oldest))
    return query.sql(dialect="postgres")
