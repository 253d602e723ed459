"""Tables in Snowflake for lookups, read by one statement, so in one consistent state. It wakes the warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Comparison, Wanted
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.lookup_rows import TIMES, as_batches, asked, counting, selection
from ds_dagster.stores.snowflake.admin import SnowflakeAdmin
from ds_dagster.stores.snowflake.names import column_name, shown_path, table
from ds_dagster.stores.snowflake.statements import DIALECT

if TYPE_CHECKING:
    import pyarrow


STEP = timedelta(microseconds=1)
"""Columns of times have nanoseconds here, and are read cut to microseconds."""


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
    text = selection(shown, table(path), in_nanoseconds(wanted), column=_column).sql(dialect=DIALECT)
    with closing(SnowflakeAdmin(options["store"], options)) as admin:
        return asked(shown_path(path), lambda: admin.select(text))


def in_nanoseconds(wanted: Wanted) -> Wanted:
    """The rows that match when their times are cut to microseconds. Of IN a range, without the limit."""
    comparisons: list[Comparison] = []
    is_exact = True
    for comparison in wanted.comparisons:
        cut = _cut(comparison) if comparison.type.name in TIMES else [comparison]
        comparisons += cut
        is_exact = is_exact and bool(cut) and (comparison.type.name not in TIMES or comparison.operator != "in")
    return Wanted(tuple(comparisons), wanted.limit if is_exact else None)


def _cut(comparison: Comparison) -> list[Comparison]:
    """A comparison with times that have no nanoseconds, of times that have them; none where it cannot be written."""
    try:
        since, before = min(comparison.values), max(comparison.values) + STEP
    except OverflowError:  # the last microsecond of all
        return []
    is_since = replace(comparison, operator=">=", values=(since,))
    is_before = replace(comparison, operator="<", values=(before,))
    is_after = replace(comparison, operator=">=", values=(before,))
    cut = {"=": [is_since, is_before], "in": [is_since, is_before], "<=": [is_before], ">": [is_after]}
    return cut.get(comparison.operator, [comparison])
