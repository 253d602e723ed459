"""Messages of ``pgoutput`` (protocol version 1, text format) in bulk: one Arrow array of messages in, changes out.

Source of the layout: PostgreSQL documentation, "Logical Replication Message Formats". A transaction's messages are
contiguous, and transactions are in commit order. The layout is parsed with numpy, all messages of a relation at once;
only rare messages (relations, truncates) are parsed one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.spark.postgres_cdc.tuples import Bytes, Index, Tuples, read_tuples, whole_numbers

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE = (ord(letter) for letter in "BCRIUDT")
IGNORED = tuple(ord(letter) for letter in "OYM")
"""Origin, type and logical messages: they contain no changes."""
KEY, OLD, NEW = (ord(letter) for letter in "KON")
EPOCH_MICROS = 946_684_800_000_000
"""2000-01-01, the epoch of the server's clock, in microseconds since 1970."""
_KNOWN = np.zeros(256, bool)
_KNOWN[[BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE, *IGNORED]] = True

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column of a table from a relation message; ``oid``: OID of its type."""

    name: str
    oid: int
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table from the last relation message. ``identity``: replica identity (``d n f i``), the columns of old rows."""

    oid: int
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    identity: str = "d"

    def index(self, name: str) -> int | None:
        """Index of a column by name, None if there is no such column."""
        return next((at for at, column in enumerate(self.columns) if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table, in order.

    Attributes:
        table: the table's description at the time of the changes.
        op: letters ``c u d t r`` as bytes.
        position: position of each change among all messages of the chunk.
        commit: LSN of the commit record of its transaction.
        sequence: number of the change in its transaction, from 0.
        time: time of the commit, microseconds since 1970.
        transaction: id of its transaction.
        new: the row after the change; absent for deletes.
        old: the row before the change; absent if the message has none (see the table's replica identity).
        old_is_key: the old row has only the columns of the replica identity.
    """

    table: SourceTable
    op: npt.NDArray[np.uint8]
    position: Index
    commit: Numbers
    sequence: Numbers
    time: Numbers
    transaction: Numbers
    new: Tuples
    old: Tuples
    old_is_key: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.op)

    def picked(self, which: Index, new: Tuples, old: Tuples) -> Changes:
        """Some of the changes, with other rows."""
        return Changes(
            self.table,
            self.op[which],
            self.position[which],
            self.commit[which],
            self.sequence[which],
            self.time[which],
            self.transaction[which],
            new,
            old,
            self.old_is_key[which],
        )


@dataclass(slots=True)
class ChangeReader:
    """Reads the chunks of one peek, in order. Transactions outside ``[start, end)`` (LSNs of commit records) are
    dropped: a peek may return transactions that are read already, and one that crosses the end."""

    start: int
    end: int
    tables: dict[int, SourceTable] = field(default_factory=dict)
    _commit: int = -1
    _time: int = 0
    _transaction: int = 0
    _seen: int = 0

    def read(self, chunk: pa.Array) -> list[Changes]:
        """The changes of the next chunk.

        Args:
            chunk: messages, BINARY without nulls.

        Raises:
            InternalError: CDC_MESSAGE_UNREADABLE.
        """
        if len(chunk) == 0:
            return []
        buffer, at = _messages(chunk)
        kinds = buffer[at]
        if not _KNOWN[kinds].all():
            unknown = chr(int(kinds[~_KNOWN[kinds]][0]))
            raise error("CDC_MESSAGE_UNREADABLE", reason=f"a message of kind {unknown!r}")
        of, begun = self._transactions(buffer, at, kinds)
        is_change = (kinds == INSERT) | (kinds == UPDATE) | (kinds == DELETE) | (kinds == TRUNCATE)
        sequence = self._sequence(is_change, of)
        wanted = is_change & (begun.commit[of] >= self.start) & (begun.commit[of] < self.end)
        facts = _Facts(begun.commit[of], sequence, begun.time[of], begun.transaction[of])
        changes = list(self._by_table(buffer, at, kinds, wanted, facts))
        last = len(begun.commit) - 1
        self._commit, self._time = int(begun.commit[last]), int(begun.time[last])
        self._transaction = int(begun.transaction[last])
        self._seen = int(sequence[-1]) + int(is_change[-1])
        return changes

    def _transactions(
        self, buffer: Bytes, at: Index, kinds: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.int64], _Begun]:
        """For each message the index of its transaction, and the transactions; 0 is the one that the last chunk left
        open."""
        starts = at[kinds == BEGIN] + 1
        begun = _Begun(
            np.concatenate([[self._commit], whole_numbers(buffer, starts, 8)]),
            np.concatenate([[self._time], whole_numbers(buffer, starts + 8, 8) + EPOCH_MICROS]),
            np.concatenate([[self._transaction], whole_numbers(buffer, starts + 16, 4)]),
        )
        return np.cumsum(kinds == BEGIN), begun

    def _sequence(self, is_change: npt.NDArray[np.bool_], of: npt.NDArray[np.int64]) -> Numbers:
        """For each message the number of changes before it in its transaction."""
        before: Numbers = np.cumsum(is_change).astype(np.int64) - is_change.astype(np.int64)
        firsts = np.searchsorted(of, np.arange(of[-1] + 1))
        base: Numbers = before[np.minimum(firsts, len(of) - 1)]
        base[0] = -self._seen
        return np.asarray(before - base[of], np.int64)

    def _by_table(
        self,
        buffer: Bytes,
        at: Index,
        kinds: npt.NDArray[np.uint8],
        wanted: npt.NDArray[np.bool_],
        facts: _Facts,
    ) -> Iterator[Changes]:
        """Changes by table, split at every relation message."""
        has_row = wanted & (kinds != TRUNCATE)
        described = np.flatnonzero(kinds == RELATION)
        truncates = np.flatnonzero(wanted & (kinds == TRUNCATE))
        edges = [0, *described.tolist(), len(at)]
        oids = np.zeros(len(at), np.int64)
        rows = np.flatnonzero(has_row)
        oids[rows] = whole_numbers(buffer, at[rows] + 1, 4)
        for first, last in pairwise(edges):
            if first < len(at) and kinds[first] == RELATION:
                table = read_relation(_one(buffer, at, first))
                self.tables[table.oid] = table
            inside = rows[slice(*np.searchsorted(rows, (first, last)))]
            for oid in np.unique(oids[inside]):
                chosen = inside[oids[inside] == oid]
                yield self._changes(int(oid), buffer, at[chosen], kinds[chosen], chosen, facts)
            for place in truncates[(truncates >= first) & (truncates < last)]:
                yield from self._truncated(_one(buffer, at, int(place)), int(place), facts)

    def _changes(
        self, oid: int, buffer: Bytes, at: Index, kinds: npt.NDArray[np.uint8], position: Index, facts: _Facts
    ) -> Changes:
        table = self._table(oid)
        marks = buffer[at + 5]
        has_old = marks != NEW
        width = len(table.columns)
        old, behind = read_tuples(buffer, at + 6, has_old, width)
        has_new = kinds != DELETE
        new_at = np.where(has_old, behind + 1, at + 6)
        new, _ = read_tuples(buffer, new_at, has_new, width)
        op = _LETTERS[kinds]
        return Changes(table, op, position, *facts.take(position), new, old, marks == KEY)

    def _truncated(self, message: bytes, place: int, facts: _Facts) -> Iterator[Changes]:
        """One change per table of a TRUNCATE, without old and new row."""
        (count,) = struct.unpack_from(">I", message, 1)
        position = np.array([place])
        for oid in struct.unpack_from(f">{count}I", message, 6):
            table = self._table(oid)
            nothing = Tuples.absent(1, len(table.columns))
            op = np.frombuffer(b"t", np.uint8)
            yield Changes(table, op, position, *facts.take(position), nothing, nothing, np.zeros(1, bool))

    def _table(self, oid: int) -> SourceTable:
        table = self.tables.get(oid)
        if table is None:
            raise error("CDC_MESSAGE_UNREADABLE", reason=f"a change of table {oid} without a relation message")
        return table


@dataclass(frozen=True, slots=True)
class _Begun:
    """Transactions of a chunk; first the one that the last chunk left open."""

    commit: Numbers
    time: Numbers
    transaction: Numbers


@dataclass(frozen=True, slots=True)
class _Facts:
    """Figures of each message of a chunk, from its transaction."""

    commit: Numbers
    sequence: Numbers
    time: Numbers
    transaction: Numbers

    def take(self, at: Index) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """The figures of some messages: commit, sequence, time, transaction."""
        return self.commit[at], self.sequence[at], self.time[at], self.transaction[at]


_LETTERS = np.zeros(256, np.uint8)
_LETTERS[[INSERT, UPDATE, DELETE]] = np.frombuffer(b"cud", np.uint8)


def _messages(chunk: pa.Array) -> tuple[Bytes, Index]:
    """The bytes of an array, and the offset of each message in them. Eight bytes of padding allow reads after it."""
    _, offsets, data = chunk.buffers()
    wide = pa.types.is_large_binary(chunk.type)
    every = np.frombuffer(offsets, np.int64 if wide else np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    held = np.frombuffer(data, np.uint8)[int(every[0]) : int(every[-1])]
    return np.concatenate([held, np.zeros(8, np.uint8)]), every[:-1].astype(np.int64) - int(every[0])


def _one(buffer: Bytes, at: Index, place: int) -> bytes:
    end = int(at[place + 1]) if place + 1 < len(at) else len(buffer)
    return buffer[int(at[place]) : end].tobytes()


def read_relation(message: bytes) -> SourceTable:
    """The table in a relation message."""
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, at = _terminated_text(message, 5)
    name, at = _terminated_text(message, at)
    identity = chr(message[at])
    (count,) = struct.unpack_from(">H", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(message[at] & 1)
        column, at = _terminated_text(message, at + 1)
        (type_,) = struct.unpack_from(">I", message, at)
        columns.append(SourceColumn(column, type_, is_key))
        at += 8
    return SourceTable(oid, schema or "pg_catalog", name, tuple(columns), identity)


def _terminated_text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def by_name(tables: Mapping[int, SourceTable]) -> Mapping[str, SourceTable]:
    """Tables by ``schema.name``."""
    return {f"{table.schema}.{table.name}": table for table in tables.values()}
