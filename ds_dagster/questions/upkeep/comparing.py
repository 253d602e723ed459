"""Compares two tables of Arrow key by key, in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

if TYPE_CHECKING:
    import pyarrow

DOUBLE_TOLERANCE = 1e-9
"""Largest difference of two equal DOUBLE values, relative to the larger one. The last digits of a SUM or AVG depend on
the order in which its rows were added, which differs between two versions."""
FLOAT_TOLERANCE = 1e-6
"""The same for FLOAT, which has 7 digits."""
MOST_SAMPLES = 20
HERE = "here"
"""Column that is TRUE in every row: after an outer join, NULL means that the side has no such row."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How the rows of two tables differ.

    Attributes:
        added, removed, changed: numbers of keys that only the second table has, that only the first one has, and whose
            values differ.
        columns: column of both tables → number of keys whose value differs.
        samples: up to :data:`MOST_SAMPLES` keys that differ: ``key``, ``before`` and ``after`` (None if there is no
            row), values as texts. Of changed rows only the columns that differ.
    """

    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]
    samples: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of both tables: its name, its name in DuckDB, and its types."""

    name: str
    place: str
    before: pyarrow.DataType
    after: pyarrow.DataType

    def side(self, side: str) -> exp.Column:
        return exp.column(self.place, table=side)

    def text(self, side: str) -> exp.Expression:
        """The value as text. Numbers of two types have one text if they are equal: without zeros at their end."""
        text = exp.cast(self.side(side), "text")
        if self.before == self.after or not self.are(_is_exact):
            return text
        trimmed = exp.func("rtrim", exp.func("rtrim", text.copy(), exp.Literal.string("0")), exp.Literal.string("."))
        has_point = exp.func("contains", text.copy(), exp.Literal.string("."), dialect="duckdb")
        return exp.case().when(has_point, trimmed).else_(text)

    def are(self, test: Callable[[Any], bool]) -> bool:
        """Whether a test holds for both types."""
        return test(self.before) and test(self.after)

    @property
    def differs(self) -> exp.Condition:
        """Condition: the values differ. NULL equals NULL, NaN equals NaN."""
        texts = exp.NullSafeNEQ(this=self.text("o"), expression=self.text("n"))
        if self.are(_is_number) and (_is_float(self.before) or _is_float(self.after)):
            return exp.not_(exp.func("coalesce", exp.paren(self._near), exp.false()))
        if self.are(_is_nested) and self.before == self.after:
            return exp.and_(texts, exp.not_(exp.func(self.near_name, self.side("o"), self.side("n"))))
        return texts

    @property
    def near_name(self) -> str:
        """Name of the function in DuckDB that compares two nested values."""
        return f"near_{self.place}"

    @property
    def _near(self) -> exp.Condition:
        old, new = (exp.cast(self.side(side), "double") for side in ("o", "n"))
        larger = exp.func("greatest", exp.func("abs", old.copy()), exp.func("abs", new.copy()))
        apart = exp.func("abs", exp.paren(exp.Sub(this=old.copy(), expression=new.copy())))
        tolerance = max(_tolerance(type_) for type_ in (self.before, self.after) if _is_float(type_))
        near = exp.LTE(this=apart, expression=exp.Mul(this=exp.Literal.number(f"{tolerance:e}"), expression=larger))
        finite = [exp.func("isfinite", side.copy()) for side in (old, new)]  # in DuckDB NaN <= NaN, and inf <= inf
        return exp.or_(exp.NullSafeEQ(this=old, expression=new), exp.and_(*finite, near))


def compared(before: pyarrow.Table, after: pyarrow.Table, key: Sequence[str]) -> Counts:
    """Compare two tables in the columns of both. Values are compared as texts, floating numbers with a tolerance, also
    those inside of nested values. NULL equals NULL.

    Args:
        before, after: the tables; both have the columns of the key.
        key: names of the key's columns.
    """
    import duckdb

    both = [name for name in before.column_names if name in after.column_names and name not in key]
    types = [(name, before.schema.field(name).type, after.schema.field(name).type) for name in (*key, *both)]
    columns = [_Column(name, f"c{number}", old, new) for number, (name, old, new) in enumerate(types)]
    keys, values = columns[: len(key)], columns[len(key) :]
    with duckdb.connect() as connection:
        for side, table in (("o", before), ("n", after)):
            part = table.select([c.name for c in columns]).rename_columns([c.place for c in columns])
            connection.register(side, part.append_column(HERE, [_trues(part.num_rows)]))
        _define_near(connection, values)
        counts = connection.execute(_counts(keys, values)).fetchone()
        assert counts is not None
        samples = [_sample(row, keys, values) for row in connection.execute(_samples(keys, values)).fetchall()]
    added, removed, changed, *by_column = counts
    by_name = {column.name: count for column, count in zip(values, by_column, strict=True) if count}
    return Counts(added, removed, changed, MappingProxyType(by_name), tuple(samples))


def near(type_: pyarrow.DataType, old: Any, new: Any) -> bool:
    """Whether two values of one type are equal, with the tolerance of floating numbers.

    Args:
        type_: Arrow's.
        old, new: as DuckDB passes them; None for NULL.
    """
    import pyarrow as pa

    if old is None or new is None:
        return old is new
    if pa.types.is_struct(type_):
        return all(near(field.type, old[field.name], new[field.name]) for field in type_)
    if pa.types.is_list(type_):
        pairs = zip(old, new, strict=False)
        return len(old) == len(new) and all(near(type_.value_type, *pair) for pair in pairs)
    if pa.types.is_map(type_) and not _is_nested(type_.key_type):
        return old.keys() == new.keys() and all(near(type_.item_type, value, new[key]) for key, value in old.items())
    if not _is_float(type_):
        return bool(old == new)
    return math.isclose(old, new, rel_tol=_tolerance(type_)) or (math.isnan(old) and math.isnan(new))


def _define_near(connection: Any, columns: Sequence[_Column]) -> None:
    rows = connection.execute("DESCRIBE o").fetchall()
    kinds = {row[0]: row[1] for row in rows}
    for column in columns:
        if column.are(_is_nested) and column.before == column.after:
            kind = kinds[column.place]
            call = _near_of(column.before)
            connection.create_function(column.near_name, call, [kind, kind], "BOOLEAN", null_handling="special")


def _near_of(type_: pyarrow.DataType) -> Callable[..., bool]:
    return lambda old, new: near(type_, old, new)  # DuckDB evaluates annotations


def _is_nested(type_: pyarrow.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(type_))


def _is_float(type_: pyarrow.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(type_))


def _is_exact(type_: pyarrow.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_))


def _is_number(type_: pyarrow.DataType) -> bool:
    return _is_exact(type_) or _is_float(type_)


def _tolerance(type_: pyarrow.DataType) -> float:
    import pyarrow as pa

    return DOUBLE_TOLERANCE if pa.types.is_float64(type_) else FLOAT_TOLERANCE


def _trues(count: int) -> Any:
    import pyarrow

    return pyarrow.array([True] * count, pyarrow.bool_())


def _joined(select: exp.Select, keys: Sequence[_Column]) -> exp.Select:
    equal = [exp.NullSafeEQ(this=column.text("o"), expression=column.text("n")) for column in keys]
    return select.from_("o").join("n", on=exp.and_(*equal), join_type="full")


def _cases(columns: Sequence[_Column]) -> Sequence[exp.Condition]:
    """Conditions: a key is added, is removed, is in both tables, and its values differ."""
    added, removed = (exp.Is(this=exp.column(HERE, table=side), expression=exp.null()) for side in ("o", "n"))
    present = exp.and_(exp.not_(added.copy()), exp.not_(removed.copy()))
    other = exp.or_(*[column.differs for column in columns]) if columns else exp.false()
    return added, removed, present, exp.and_(present.copy(), other)


def _counts(keys: Sequence[_Column], columns: Sequence[_Column]) -> str:
    added, removed, present, changed = _cases(columns)
    conditions = [added, removed, changed, *(exp.and_(present.copy(), column.differs) for column in columns)]
    counts = [exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=part)) for part in conditions]
    return _joined(exp.select(*counts), keys).sql(dialect="duckdb")


def _samples(keys: Sequence[_Column], columns: Sequence[_Column]) -> str:
    """Statement for samples: keys as texts, whether each side has the row, the values of both sides as texts, and which
    columns differ."""
    names = [exp.func("coalesce", column.text("o"), column.text("n")) for column in keys]
    values = [exp.cast(column.side(side), "text") for side in ("o", "n") for column in columns]
    here = [exp.column(HERE, table=side) for side in ("o", "n")]
    added, removed, _, changed = _cases(columns)
    select = exp.select(*names, *here, *values, *(column.differs for column in columns))
    wanted = _joined(select, keys).where(exp.or_(added, removed, changed))
    places = [exp.Literal.number(place + 1) for place in range(len(keys))]
    return wanted.order_by(*places).limit(MOST_SAMPLES).sql(dialect="duckdb")


def _sample(row: Sequence[Any], keys: Sequence[_Column], columns: Sequence[_Column]) -> Mapping[str, Any]:
    names, width = [column.name for column in columns], len(columns)
    (old, new), rest = row[len(keys) : len(keys) + 2], row[len(keys) + 2 :]
    before, after = (dict(zip(names, rest[begin : begin + width], strict=True)) for begin in (0, width))
    if old and new:
        other = [name for name, differs in zip(names, rest[2 * width :], strict=True) if differs]
        before, after = ({name: side[name] for name in other} for side in (before, after))
    key = dict(zip((column.name for column in keys), row[: len(keys)], strict=True))
    return {"key": key, "before": before if old else None, "after": after if new else None}
