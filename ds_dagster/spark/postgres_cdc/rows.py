"""Changes → rows of a relation, in its own types.

Two shapes: Debezium's envelope (``op``, ``ts_ms``, ``before``, ``after``, ``source``) for a stream, and the table's own
columns with a mark for deletes for a changelog. In both shapes, a row has additional columns: see :data:`FACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ds_dagster.datatypes import DataType, StructType
from ds_dagster.errors import error
from ds_dagster.spark.postgres_cdc.columns import arrow_type, typed
from ds_dagster.spark.postgres_cdc.jsontext import json_rows
from ds_dagster.spark.postgres_cdc.pgoutput import Changes, SourceTable
from ds_dagster.spark.postgres_cdc.tuples import Mask, Tuples

FACTS = (
    pa.field("deleted", pa.bool_()),
    pa.field("bad", pa.string()),
    pa.field("commit_lsn", pa.int64()),
    pa.field("sequence", pa.int64()),
    pa.field("at", pa.timestamp("us", "UTC")),
)
"""Columns next to ``row``: whether it deletes its key; why it is bad, or null; its position among all changes (LSN of
the commit, and a number); time of the commit."""
SNAPSHOT = ord("r")
READ_ROWS = 20_000
"""Most rows of one record batch for Spark."""


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of the relation that is read."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of the rows.

    Attributes:
        columns: columns of the relation that are read.
        key: primary key of a changelog; empty for a stream of envelopes.
        database: name of the database, shown in ``source``.
    """

    columns: tuple[ReadColumn, ...]
    key: tuple[str, ...] = ()
    database: str = ""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches."""
        row = pa.struct([pa.field(c.name, arrow_type(c.type)) for c in self.columns])
        return pa.schema([pa.field("row", row), *FACTS])


class Reasons:
    """Why rows are bad: the first reason of each row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._free = np.ones(rows, bool)
        self._found: npt.NDArray[np.object_] | None = None

    def add(self, where: Mask, text: str) -> None:
        """Add a reason for some rows; rows that have a reason keep it."""
        if not where.any():
            return
        if self._found is None:
            self._found = np.full(self._rows, None, object)
        self._found[where & self._free] = text
        self._free &= ~where

    def array(self) -> pa.Array:
        """The reasons as a text column, null for good rows."""
        return pa.nulls(self._rows, pa.string()) if self._found is None else pa.array(self._found, pa.string())


def make_rows(changes: Sequence[Changes], shape: Shape) -> pa.RecordBatch | None:
    """The rows of all changes of a chunk, in order; None if there are none.

    Raises:
        UserError: CDC_COLUMN_GONE, CDC_TRUNCATED.
    """
    make = _keyed if shape.key else _envelopes
    parts = [part for change in changes for part in make(change, shape)]
    if not parts:
        return None
    batches = [part.batch for part in parts]
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    positions = np.concatenate([part.position for part in parts])
    ordered = np.argsort(positions, kind="stable")
    if (np.diff(ordered) != 1).any():
        table = table.take(pa.array(ordered))
    return table.combine_chunks().to_batches()[0]


def record_batches(chunks: Iterable[Sequence[Changes]], shape: Shape) -> Iterator[pa.RecordBatch]:
    """The rows of some chunks, in record batches for Spark."""
    for chunk in chunks:
        rows = make_rows(chunk, shape)
        if rows is not None:
            yield from in_parts(rows)


def in_parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A record batch in parts of :data:`READ_ROWS`."""
    return (rows.slice(at, READ_ROWS) for at in range(0, rows.num_rows, READ_ROWS))


def has_lists(type_: pa.DataType) -> bool:
    """Whether values of a type contain arrays. Spark copies rows that come with a plan, and fails at a NULL in an array
    of numbers ("Value at index is null")."""
    parts = [type_.field(number).type for number in range(type_.num_fields)]
    return bool(parts) and (not pa.types.is_struct(type_) or any(map(has_lists, parts)))


@dataclass(frozen=True, slots=True)
class _TableRows:
    """Rows of one table. ``position``: twice the position of the change, +1 for upserts and deletes by key, so that the
    delete of an old key comes first."""

    batch: pa.RecordBatch
    position: npt.NDArray[np.int64]


def _part(
    changes: Changes, shape: Shape, values: Sequence[pa.Array], deleted: Mask, reasons: Reasons, second: bool
) -> _TableRows:
    fields = list(shape.schema.field("row").type)
    row = pa.StructArray.from_arrays(list(values), fields=fields)
    facts = [
        pa.array(deleted),
        reasons.array(),
        pa.array(changes.commit),
        pa.array(changes.sequence * 2 + second),
        pa.array(changes.time, pa.timestamp("us", "UTC")),
    ]
    batch = pa.RecordBatch.from_arrays([row, *facts], schema=shape.schema)
    return _TableRows(batch, changes.position.astype(np.int64) * 2 + second)


# --- columns of a table -----------------------------------------------------------------------------------------------


def _column(table: SourceTable, name: str) -> int:
    """Index of a declared column in the table's current description.

    Raises:
        UserError: CDC_COLUMN_GONE.
    """
    place = table.index(name)
    if place is None:
        raise error("CDC_COLUMN_GONE", table=f"{table.schema}.{table.name}", column=name)
    return place


def _values(table: SourceTable, rows: Tuples, name: str, type_: DataType, reasons: Reasons) -> pa.Array:
    at = _column(table, name)
    array = typed(rows.values[at], table.columns[at].oid, type_)
    if array.bad is not None:
        reasons.add(array.bad, f"column {name}: a value that is not a valid {type_}")
    return array.values


def _completed(changes: Changes, names: Sequence[str], reasons: Reasons) -> Tuples:
    """New rows; values that the server left out because they did not change come from the old row. If the old row is
    not complete, the row is bad."""
    new, old = changes.new, changes.old
    if all(mask is None for mask in new.unchanged):
        return new
    values = list(new.values)
    whole = old.present & ~changes.old_is_key
    for at, mask in enumerate(new.unchanged):
        if mask is None:
            continue
        if (mask & whole).any():
            values[at] = pc.if_else(pa.array(mask & whole), old.values[at], values[at])
        name = changes.table.columns[at].name
        if not names or name in names:
            reasons.add(
                mask & ~whole,
                f"column {name}: it was not changed and is stored apart (TOAST), so the change does not hold it; "
                f"ALTER TABLE {changes.table.schema}.{changes.table.name} REPLICA IDENTITY FULL",
            )
    return Tuples(new.present, tuple(values), (None,) * len(values))


# --- envelopes --------------------------------------------------------------------------------------------------------


def _envelopes(changes: Changes, shape: Shape) -> list[_TableRows]:
    reasons = Reasons(len(changes))
    values = [_PARTS[column.name](changes, column.type, shape, reasons) for column in shape.columns]
    return [_part(changes, shape, values, np.zeros(len(changes), bool), reasons, False)]


def _op(changes: Changes, _type: DataType, _shape: Shape, _reasons: Reasons) -> pa.Array:
    offsets = pa.py_buffer(np.arange(len(changes) + 1, dtype=np.int32))
    return pa.Array.from_buffers(
        pa.string(), len(changes), [None, offsets, pa.py_buffer(np.ascontiguousarray(changes.op))]
    )


def _millis(changes: Changes, _type: DataType, _shape: Shape, _reasons: Reasons) -> pa.Array:
    return pa.array(changes.time // 1000)


def _before(changes: Changes, type_: DataType, _shape: Shape, reasons: Reasons) -> pa.Array:
    return _row(changes.table, changes.old, type_, reasons)


def _after(changes: Changes, type_: DataType, _shape: Shape, reasons: Reasons) -> pa.Array:
    names = [field.name for field in type_.fields] if isinstance(type_, StructType) else []
    return _row(changes.table, _completed(changes, names, reasons), type_, reasons)


def _row(table: SourceTable, rows: Tuples, type_: DataType, reasons: Reasons) -> pa.Array:
    """Rows as STRUCT, or as JSON in text or bytes."""
    if not isinstance(type_, StructType):
        return json_rows(table, rows).cast(arrow_type(type_))
    fields = [pa.field(field.name, arrow_type(field.type)) for field in type_.fields]
    values = [_values(table, rows, field.name, field.type, reasons) for field in type_.fields]
    mask = None if rows.present.all() else pa.array(~rows.present)
    return pa.StructArray.from_arrays(values, fields=fields, mask=mask)


def _source(changes: Changes, type_: DataType, shape: Shape, _reasons: Reasons) -> pa.Array:
    if not isinstance(type_, StructType):
        raise error("INTERNAL", where=f"the source of a change as {type_}")
    members = [SOURCE_FIELDS[field.name.lower()](changes, shape).cast(arrow_type(field.type)) for field in type_.fields]
    return pa.StructArray.from_arrays(members, names=[field.name for field in type_.fields])


def _same(text: str, changes: Changes) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(changes), np.int8)), pa.array([text])).cast(pa.string())


SOURCE_FIELDS: Mapping[str, Callable[[Changes, Shape], pa.Array]] = MappingProxyType(
    {
        "db": lambda changes, shape: _same(shape.database, changes),
        "schema": lambda changes, _: _same(changes.table.schema, changes),
        "table": lambda changes, _: _same(changes.table.name, changes),
        "lsn": lambda changes, _: pa.array(changes.commit),
        "txid": lambda changes, _: pa.array(changes.transaction),
        "ts_ms": lambda changes, _: pa.array(changes.time // 1000),
        "snapshot": lambda changes, _: _same(
            "true" if len(changes) and changes.op[0] == SNAPSHOT else "false", changes
        ),
        "connector": lambda changes, _: _same("postgresql", changes),
    }
)
"""Field of ``source`` → its values; ``lsn`` is the LSN of the transaction's commit."""

_PARTS: Mapping[str, Callable[[Changes, DataType, Shape, Reasons], pa.Array]] = MappingProxyType(
    {"op": _op, "ts_ms": _millis, "before": _before, "after": _after, "source": _source, "system": _source}
)
"""Column of an envelope → its values."""


# --- rows by key ------------------------------------------------------------------------------------------------------


def _keyed(changes: Changes, shape: Shape) -> list[_TableRows]:
    """Upserts and deletes; an update that changes the key deletes the old key first."""
    if changes.op[0] == ord("t"):
        raise error("CDC_TRUNCATED", table=f"{changes.table.schema}.{changes.table.name}")
    reasons = Reasons(len(changes))
    deleted = changes.op == ord("d")
    names = [column.name for column in shape.columns]
    new = _completed(changes, names, reasons)
    values = []
    for column in shape.columns:
        rows = _merged(new, changes.old, deleted, column.name in shape.key)
        values.append(_values(changes.table, rows, column.name, column.type, reasons))
    _require_key(values, shape, reasons)
    parts = [_part(changes, shape, values, deleted, reasons, True)]
    moved = _moved(changes, shape)
    if moved.any():
        parts.insert(0, _deletes(changes, moved, shape))
    return parts


def _merged(new: Tuples, old: Tuples, deleted: Mask, is_key: bool) -> Tuples:
    """The values for a column: of the new row; for deletes, a key column of the old row."""
    if not deleted.any():
        return new
    if not is_key:
        return new
    which = pa.array(deleted)
    values = tuple(pc.if_else(which, before, after) for before, after in zip(old.values, new.values, strict=True))
    return Tuples(new.present | deleted, values, new.unchanged)


def _require_key(values: Sequence[pa.Array], shape: Shape, reasons: Reasons) -> None:
    for column, array in zip(shape.columns, values, strict=True):
        if column.name in shape.key and array.null_count:
            missing = pc.is_null(array).to_numpy(zero_copy_only=False)
            reasons.add(missing, f"column {column.name} of the primary key is NULL or not in the change")


def _moved(changes: Changes, shape: Shape) -> Mask:
    """Updates that change the key."""
    moved = np.zeros(len(changes), bool)
    update = (changes.op == ord("u")) & changes.old.present
    if not update.any():
        return moved
    for name in shape.key:
        at = _column(changes.table, name)
        differs = pc.fill_null(pc.not_equal(changes.old.values[at], changes.new.values[at]), False)
        moved |= update & differs.to_numpy(zero_copy_only=False)
    return moved


def _deletes(changes: Changes, moved: Mask, shape: Shape) -> _TableRows:
    which = np.flatnonzero(moved)
    chosen = changes.picked(which, changes.new, changes.old)
    reasons, values = Reasons(len(which)), []
    taken = changes.old.picked(which)
    for column in shape.columns:
        if column.name not in shape.key:
            values.append(pa.nulls(len(which), arrow_type(column.type)))
            continue
        values.append(_values(changes.table, taken, column.name, column.type, reasons))
    return _part(chosen, shape, values, np.ones(len(which), bool), reasons, False)
