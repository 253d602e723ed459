"""Transactions that queries have not committed yet: chunks of messages, parsed once for all queries.

Positions are LSNs. As everywhere in this source, a position is reached when all transactions whose commit record begins
before it are read; the end of a commit record is such a position.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from ds_dagster.spark.postgres_cdc.pgoutput import (
    BEGIN,
    COMMIT,
    DELETE,
    INSERT,
    RELATION,
    TRUNCATE,
    UPDATE,
    ChangeReader,
    Changes,
    SourceTable,
    read_relation,
)

LIMIT_BYTES = 64 * 1024 * 1024
"""Most bytes of messages that are kept. If they are exceeded, the oldest transactions are dropped, and the queries that
have not committed them read their own slots."""
CHUNK_BYTES = 1024 * 1024
MESSAGE_BYTES = 64
"""What a message takes in memory besides its bytes."""
NEVER = (1 << 63) - 1
"""Position that no log reaches."""
ROWS = (INSERT, UPDATE, DELETE)
_COMMIT = struct.Struct(">cBQQ")
Tables = Mapping[int, SourceTable]


@dataclass(slots=True)
class Member:
    """A query in the session.

    Attributes:
        slot: its slot and publication.
        oids: its tables.
        seen: position that its checkpoint has committed.
        since: position from which on the buffer has all transactions of its tables that it has not committed.
        last: end of the last transaction of its tables; 0: none yet.
    """

    slot: str
    oids: frozenset[int]
    seen: int
    since: int
    last: int = 0

    @property
    def needs(self) -> int:
        """Position of the first transaction that it may still ask for."""
        return self.seen if self.last > self.seen else NEVER


@dataclass(slots=True)
class Chunk:
    """Consecutive transactions.

    Attributes:
        tables: the tables that were described before its first message.
        messages: dropped when they are parsed.
        oids: tables that it changes.
        first: LSN of the first commit record.
        last: LSN of the last commit record.
        end: end of the last commit record.
        size: bytes in memory.
    """

    tables: Tables
    first: int
    messages: list[bytes] = field(default_factory=list)
    oids: set[int] = field(default_factory=set)
    last: int = 0
    end: int = 0
    size: int = 0
    _changes: list[Changes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def changes(self) -> list[Changes]:
        """The changes of all tables; parsed at the first request. The chunk must be complete."""
        with self._lock:
            if self._changes is None:
                reader = ChangeReader(0, NEVER, dict(self.tables))
                self._changes = reader.read(pa.array(self.messages, pa.binary()))
                self.messages = []
            return self._changes


@dataclass(slots=True)
class _Transaction:
    """The transaction that is being received; ``is_lost``: it is larger than the buffer; ``is_known``: the session
    before this one had it."""

    commit: int
    tables: Tables
    messages: list[bytes]
    oids: set[int] = field(default_factory=set)
    size: int = 0
    is_lost: bool = False
    is_known: bool = False


@dataclass(slots=True)
class Buffer:
    """The transactions of one session; the caller holds a lock.

    Attributes:
        limit: see :data:`LIMIT_BYTES`.
        members: queries by the name of their membership.
        publications: those that the session publishes.
        head: all transactions before this position have been received; 0: there is no session.
        parsed: chunks that were handed out.
    """

    limit: int = LIMIT_BYTES
    members: dict[str, Member] = field(default_factory=dict)
    publications: frozenset[str] = frozenset()
    head: int = 0
    _tables: Tables = field(default_factory=lambda: MappingProxyType({}))
    _chunks: deque[Chunk] = field(default_factory=deque)
    _is_open: bool = False
    _size: int = 0
    _transaction: _Transaction | None = None
    _known: int = 0

    # -- queries -------------------------------------------------------------------------------------------------------

    def join(self, name: str, slot: str, oids: Collection[int]) -> None:
        """Add a query. It is covered from now on if the session has its publication."""
        since = self.head if slot in self.publications else NEVER
        self.members[name] = Member(slot, frozenset(oids), 0, since)

    def leave(self, name: str) -> None:
        """Remove a query."""
        self.members.pop(name, None)
        self._release()

    def commit(self, name: str, lsn: int) -> None:
        """A query's checkpoint has committed a position."""
        member = self.members.get(name)
        if member is not None:
            member.seen = max(member.seen, lsn)
            self._release()

    def chunks(self, name: str, start: int, end: int) -> list[Chunk] | None:
        """The chunks with the transactions of a query whose commit records begin in ``[start, end)``; None if some are
        not in the buffer."""
        member = self.members.get(name)
        if member is None or member.since > start or end > self.head:
            return None
        chosen = [c for c in self._chunks if c.last >= start and c.first < end and not member.oids.isdisjoint(c.oids)]
        if chosen and chosen[-1] is self._chunks[-1]:
            self._is_open = False
        return chosen

    # -- the session ---------------------------------------------------------------------------------------------------

    def begin(self, floor: int, publications: Collection[str]) -> None:
        """A session begins at a position, in place of the earlier one."""
        self._clear()
        self.head, self.publications = floor, frozenset(publications)
        for member in self.members.values():
            member.last, member.since = 0, floor if member.slot in publications else NEVER

    def go_on(self, publications: Collection[str]) -> None:
        """Another session takes the place of the current one, which has reached its beginning. Queries of both keep
        what they have. The new session repeats the transactions that the former one has sent since then; they are not
        taken again, so new queries are covered from the head on."""
        self.publications, self._known, self._is_open = frozenset(publications), self.head, False
        self._discard()
        for member in self.members.values():
            if member.slot not in publications:
                member.last, member.since = 0, NEVER
            elif member.since == NEVER:
                member.since = self.head

    def end(self) -> None:
        """The session has ended: no query is covered."""
        self._clear()
        self.head, self.publications = 0, frozenset()
        for member in self.members.values():
            member.last, member.since = 0, NEVER

    def reach(self, lsn: int) -> None:
        """The session has sent everything before a position."""
        if self._transaction is None:
            self.head = max(self.head, lsn)

    def take(self, messages: Iterable[bytes]) -> bool:
        """Take messages of the session, in order. Whether a transaction was completed."""
        head = self.head
        for message in messages:
            kind = message[0]
            if kind == BEGIN:
                commit = int.from_bytes(message[1:9], "big")
                self._transaction = _Transaction(commit, self._tables, [], is_known=commit < self._known)
            elif kind == RELATION:
                table = read_relation(message)
                self._tables = {**self._tables, table.oid: table}
            if (transaction := self._transaction) is None:
                continue  # the server repeats nothing, but it may send messages outside transactions
            self._add(transaction, message)
            if kind in ROWS:
                transaction.oids.add(int.from_bytes(message[1:5], "big"))
            elif kind == TRUNCATE:
                (count,) = struct.unpack_from(">I", message, 1)
                transaction.oids.update(struct.unpack_from(f">{count}I", message, 6))
            elif kind == COMMIT:
                self._complete(transaction, _COMMIT.unpack_from(message)[3])
        return self.head != head

    # -- inside --------------------------------------------------------------------------------------------------------

    def _add(self, transaction: _Transaction, message: bytes) -> None:
        if transaction.is_lost or transaction.is_known:
            return
        size = len(message) + MESSAGE_BYTES
        transaction.messages.append(message)
        transaction.size += size
        self._size += size
        if transaction.size > self.limit:
            self._size -= transaction.size
            transaction.messages, transaction.size, transaction.is_lost = [], 0, True

    def _complete(self, transaction: _Transaction, end: int) -> None:
        self._transaction = None
        if transaction.is_known:
            return
        self.head = end
        for member in self.members.values():
            if not member.oids.isdisjoint(transaction.oids):
                member.last = end
                if transaction.is_lost:
                    member.since = max(member.since, end)
        if not transaction.is_lost:
            self._append(transaction, end)
        self._release()

    def _append(self, transaction: _Transaction, end: int) -> None:
        if not self._is_open or not self._chunks:
            self._chunks.append(Chunk(transaction.tables, transaction.commit))
            self._is_open = True
        chunk = self._chunks[-1]
        chunk.messages += transaction.messages
        chunk.oids |= transaction.oids
        chunk.last, chunk.end = transaction.commit, end
        chunk.size += transaction.size
        if chunk.size >= CHUNK_BYTES:
            self._is_open = False

    def _release(self) -> None:
        """Drop what no query needs, and the oldest transactions if the buffer is full."""
        needed = min((member.needs for member in self.members.values()), default=NEVER)
        while self._chunks and self._chunks[0].last < needed:
            self._drop()
        while self._chunks and self._size > self.limit:
            chunk = self._drop()
            for member in self.members.values():
                if chunk.last >= member.seen and not member.oids.isdisjoint(chunk.oids):
                    member.since = max(member.since, chunk.end)

    def _drop(self) -> Chunk:
        chunk = self._chunks.popleft()
        self._size -= chunk.size
        return chunk

    def _clear(self) -> None:
        self._discard()
        self._chunks.clear()
        self._is_open, self._size, self._known = False, 0, 0

    def _discard(self) -> None:
        """Forget the incomplete transaction and the descriptions of tables; the next session sends both again."""
        if self._transaction is not None:
            self._size -= self._transaction.size
        self._tables, self._transaction = MappingProxyType({}), None
