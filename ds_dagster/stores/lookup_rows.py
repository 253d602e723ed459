"""The SELECT of a lookup, and its rows (a driver's Python values) as Arrow batches."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Comparison, Wanted
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.identifiers import quoted

if TYPE_CHECKING:
    import pyarrow

TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
AS_TEXT = ("VARCHAR", "DECIMAL")
"""Types that are read as text: a driver may give such a column values of other types, and several forms of numbers."""

FLOATS = ("FLOAT", "DOUBLE")
NAN = "NaN"
"""Text of a float that the store's numbers do not have."""

NESTED = ("ARRAY", "MAP", "STRUCT")
"""Types that become JSON text, whatever the driver gives; a MAP as an object or as pairs."""

OF_THE_TABLE = ("QUESTION_FAILED", "ENTITY_MISSING")
"""Conditions of a SELECT that names a missing table or column."""


Named = Callable[[str], exp.Expression]
"""Name → column of the table in a SELECT."""
Constant = Callable[[Any, Scalar], exp.Expr | None]
"""A constant to compare with a column of that type; None if the store compares such values differently."""
NATIVE: dict[str, str] = {"TIMESTAMP": "TIMESTAMPNTZ", "TIMESTAMP_LTZ": "TIMESTAMPTZ"}
OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


def quoted_column(name: str) -> exp.Expression:
    """A column by its quoted name."""
    return exp.column(quoted(name))


def time_text(value: datetime) -> str:
    """A time without its zone, of fixed width: years below 1000 have leading zeros, without which a server reads
    another year."""
    return value.replace(tzinfo=None).isoformat(" ", "microseconds")


def constant(value: Any, type_: Scalar) -> exp.Expr | None:
    """A constant in standard SQL: number, time, date or text."""
    if isinstance(value, int | Decimal):
        return exp.Literal.number(str(value))
    if isinstance(value, datetime):
        zone = "+00:00" if type_.name == "TIMESTAMP_LTZ" else ""
        text = exp.Literal.string(f"{time_text(value)}{zone}")
        return exp.cast(text, exp.DataType.Type[NATIVE[type_.name]])
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    return exp.Literal.string(value)


def selection(
    shown: Sequence[exp.Expr],
    source: exp.Expression,
    wanted: Wanted = EVERYTHING,
    *,
    column: Named = quoted_column,
    literal: Constant = constant,
) -> exp.Select:
    """``SELECT shown FROM source WHERE … LIMIT …``.

    Args:
        shown: selected columns.
        source: table or sub-select.
        wanted: which rows; comparisons that the store cannot make are left out, and then the limit, too.
        column: see :data:`Named`.
        literal: see :data:`Constant`.
    """
    query = exp.select(*shown).from_(source)
    conditions = [_condition(comparison, column, literal) for comparison in wanted.comparisons]
    present = [condition for condition in conditions if condition is not None]
    if present:
        query = query.where(*present)
    return query.limit(wanted.limit) if wanted.limit is not None and len(present) == len(conditions) else query


def counting() -> list[exp.Expression]:
    """Columns of a SELECT that counts rows: ``COUNT(*)``."""
    return [exp.Count(this=exp.Star())]


def _condition(comparison: Comparison, column: Named, literal: Constant) -> exp.Expr | None:
    constants = [literal(value, comparison.type) for value in comparison.values]
    if any(value is None for value in constants):
        return None
    if comparison.operator == "in":
        return exp.In(this=column(comparison.column), expressions=constants)
    return OPERATORS[comparison.operator](this=column(comparison.column), expression=constants[0])


def asked(table: str, ask: Callable[[], Sequence[tuple[Any, ...]]]) -> Sequence[tuple[Any, ...]]:
    """Rows of a SELECT over a table. If the SELECT is invalid there, the table is declared with other columns.

    Raises:
        UserError: LOOKUP_TABLE_DIFFERS. DsError: STORE_….
    """
    try:
        return ask()
    except DsError as problem:
        if problem.condition not in OF_THE_TABLE:
            raise
        reason = " ".join(str(problem.params.get("reason", "")).split())
        raise error("LOOKUP_TABLE_DIFFERS", table=table, reason=reason) from None


def as_batches(rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, str]]) -> Iterator[pyarrow.RecordBatch]:
    """Rows as Arrow, see :func:`parts_as_batches`."""
    return parts_as_batches([rows], columns)


def parts_as_batches(
    parts: Iterable[Sequence[tuple[Any, ...]]], columns: Sequence[tuple[str, str]]
) -> Iterator[pyarrow.RecordBatch]:
    """Rows as Arrow, all with one schema.

    Args:
        parts: rows as they are fetched, a few thousand at once, so that not all Python values are in memory together.
            Values are in the order of the columns; times are datetime, or text ``2024-01-31 23:59:59.000000`` in UTC.
        columns: name and type (``DECIMAL(10, 2)``).
    """
    import pyarrow as pa

    names = [name for name, _ in columns]
    tables = []
    for rows in filter(None, parts):
        values = zip(*rows, strict=True)
        arrays = [
            _array(list(values_of_column), type_) for values_of_column, (_, type_) in zip(values, columns, strict=True)
        ]
        tables.append(pa.Table.from_arrays(arrays, names=names))
    if tables:
        yield from pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()


def _array(values: list[Any], type_: str) -> pyarrow.Array:
    import pyarrow as pa

    name = type_.partition("(")[0].partition("<")[0]
    if name in NESTED:
        return _texts([None if value is None else _json(value) for value in values])
    if name in AS_TEXT:
        return _texts(values)
    if name in FLOATS and NAN in values:
        return listed([math.nan if value == NAN else value for value in values])
    if name in TIMES:
        return _times(values, is_zoned=name == "TIMESTAMP_LTZ")
    if name == "TIME":
        return _texts([None if value is None else str(value) for value in values]).cast(pa.time64("us"))
    if name == "BOOLEAN":
        return listed([None if value is None else int(bool(value)) for value in values]).cast(pa.bool_())
    return listed(values)


def listed(values: list[Any]) -> pyarrow.Array:
    """A list as ``pyarrow.array`` makes it, without calling that for lists of only whole numbers, floats or texts:
    ``pyarrow.array`` imports pandas to check for its types, which takes half a second, many times a look-up."""
    import pyarrow as pa

    kinds = tuple(set(map(type, values)) - {type(None)})
    if not kinds:
        return pa.nulls(len(values))
    if len(kinds) > 1 or kinds[0] not in LISTED:
        return pa.array(values)
    nulls = values.count(None)
    valid = None
    if nulls:
        bits = "".join("0" if value is None else "1" for value in reversed(values))
        valid = pa.py_buffer(int(bits, 2).to_bytes((len(values) + 7) // 8, "little"))
    try:
        type_, buffers = LISTED[kinds[0]](values, nulls)
    except OverflowError:  # more than 64 bits, or 2 GB of text
        return pa.array(values)
    return pa.Array.from_buffers(type_, len(values), [valid, *map(pa.py_buffer, buffers)], nulls)


def _integers(values: list[Any], nulls: int) -> tuple[pyarrow.DataType, list[Any]]:
    import pyarrow as pa

    return pa.int64(), [array("q", [value or 0 for value in values] if nulls else values)]


def _floats(values: list[Any], nulls: int) -> tuple[pyarrow.DataType, list[Any]]:
    import pyarrow as pa

    return pa.float64(), [array("d", [value or 0.0 for value in values] if nulls else values)]


def _strings(values: list[Any], nulls: int) -> tuple[pyarrow.DataType, list[Any]]:
    import pyarrow as pa

    texts = [(value or "").encode() for value in values] if nulls else [value.encode() for value in values]
    return pa.string(), [array("i", accumulate(map(len, texts), initial=0)), b"".join(texts)]


LISTED: Mapping[type, Callable[[list[Any], int], tuple[pyarrow.DataType, list[Any]]]] = MappingProxyType(
    {int: _integers, float: _floats, str: _strings}
)
"""Type of all values → function that gives Arrow's type and the buffers after the validity bits."""


def _texts(values: list[Any]) -> pyarrow.Array:
    import pyarrow as pa

    if set(map(type, values)) <= {str, type(None)}:
        return listed(values).cast(pa.string())
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Inside a nested value: a driver's own list as a list, a number or a time as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _times(values: list[Any], *, is_zoned: bool) -> pyarrow.Array:
    """Timestamps in microseconds; a time without a zone is in UTC."""
    import pyarrow as pa

    moments = listed(values)
    if pa.types.is_string(moments.type):
        moments = moments.cast(pa.timestamp("us"))
    return moments.cast(pa.timestamp("us", "UTC" if is_zoned else None))
