"""The buffer of a shared session against a plain model: what each query may ask for, and what it then gets."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ds_dagster.spark.postgres_cdc.live.buffer import NEVER, Buffer
from ds_dagster.spark.postgres_cdc.live.selection import changes_of
from ds_dagster.spark.postgres_cdc.pgoutput import ChangeReader, Changes

OIDS = (11, 12, 13)
PUBLICATIONS = {"p": (11, 12), "q": (12, 13)}


@dataclass(frozen=True)
class Transaction:
    """One in the log: its commit record is at ``commit`` to ``end``; changes are (tables, letter, value)."""

    commit: int
    end: int
    changes: tuple[tuple[tuple[int, ...], str, str], ...]


def relation(oid: int) -> bytes:
    name = f"t{oid}".encode()
    return b"R" + struct.pack(">I", oid) + b"s\0" + name + b"\0d" + struct.pack(">H", 1) + b"\1v\0" + bytes(8)


def messages(transaction: Transaction, oids: frozenset[int], described: set[int]) -> list[bytes]:
    """As a server sends a transaction to a session over some tables."""
    found = [b"B" + struct.pack(">QQI", transaction.commit, 7, 1)]
    for tables, letter, value in transaction.changes:
        chosen = [oid for oid in tables if oid in oids]
        found += [relation(oid) for oid in chosen if oid not in described]
        described.update(chosen)
        row = struct.pack(">H", 1) + b"t" + struct.pack(">I", len(value)) + value.encode()
        if letter == "T" and chosen:
            found.append(b"T" + struct.pack(">IB", len(chosen), 0) + struct.pack(f">{len(chosen)}I", *chosen))
        elif chosen:
            found.append(letter.encode() + struct.pack(">I", chosen[0]) + (b"N" if letter == "I" else b"K") + row)
    found.append(b"C\0" + struct.pack(">QQQ", transaction.commit, transaction.end, 7))
    return found


def rows(changes: list[Changes]) -> list[tuple[int, int, int, str, str | None]]:
    """Commit, number, table, letter, value: in order."""
    found = []
    for change in changes:
        values = [new if new is not None else old for new, old in zip(
            change.new.values[0].to_pylist(), change.old.values[0].to_pylist(), strict=True)]  # fmt: skip
        found += zip(change.position, change.commit, change.sequence, [change.table.oid] * len(change),
                     map(chr, change.op), values, strict=True)  # fmt: skip
    return [row[1:] for row in sorted(found, key=lambda row: (int(row[0]), row[3]))]


def own_slot(log: list[Transaction], oids: frozenset[int], start: int, end: int) -> list[tuple[object, ...]]:
    """What a query's own slot gives for a range."""
    described: set[int] = set()
    sent = [m for t in log if start <= t.commit < end and any(set(c[0]) & oids for c in t.changes)
            for m in messages(t, oids, described)]  # fmt: skip
    return rows(ChangeReader(start, end).read(pa.array(sent, pa.binary()))) if sent else []


@dataclass
class Query:
    """A query that follows the buffer, as its planner does; ``lost``: how often it had to read its own slot."""

    name: str
    oids: frozenset[int]
    at: int
    clear: int
    lost: int = 0


def transaction(chance: random.Random, at: int) -> Transaction:
    changes = []
    for _ in range(chance.randint(1, 6)):
        letter = chance.choice("IIIDT" if chance.random() < 0.2 else "ID")
        tables = tuple(chance.sample(OIDS, chance.randint(1, 3))) if letter == "T" else (chance.choice(OIDS),)
        changes.append((tables, letter, "x" * chance.choice((1, 5, 300))))
    return Transaction(at + 10, at + 20, tuple(changes))


class World:
    """A log, sessions over some publications, and queries over some of their tables."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.buffer = Buffer(limit=self.chance.choice((600, 3_000, 1_000_000)))
        self.log: list[Transaction] = []
        self.described: set[int] = set()
        self.queries: list[Query] = []
        self.served, self.head = 0, 100
        self.oids: frozenset[int] = frozenset()
        self.begin()

    def publish(self) -> tuple[str, ...]:
        """Choose what the next session publishes."""
        chosen = self.chance.choice((("p", "q"), ("p",), ("q",)))
        self.oids = frozenset(oid for name in chosen for oid in PUBLICATIONS[name])
        self.described.clear()
        return chosen

    def begin(self) -> None:
        self.buffer.begin(self.head, self.publish())

    def sent(self, transaction: Transaction) -> list[bytes]:
        """What the session sends; nothing of a transaction without changes of its tables."""
        is_empty = not any(set(tables) & self.oids for tables, _, _ in transaction.changes)
        return [] if is_empty else messages(transaction, self.oids, self.described)

    def write(self) -> None:
        """A transaction that arrives in two parts."""
        self.log.append(transaction(self.chance, self.head))
        self.head = self.log[-1].end + self.chance.choice((0, 7))
        sent = self.sent(self.log[-1])
        cut = self.chance.randint(0, len(sent))
        self.buffer.take(sent[:cut])
        self.buffer.reach(self.log[-1].commit - 1 if cut < len(sent) else self.log[-1].end)
        self.buffer.take(sent[cut:])
        self.buffer.reach(self.head)

    def hand_over(self) -> None:
        """Another session takes over in the middle of a transaction; it repeats some of the last transactions."""
        self.log.append(transaction(self.chance, self.head))
        self.head = self.log[-1].end
        sent = self.sent(self.log[-1])
        self.buffer.take(sent[: self.chance.randint(0, max(0, len(sent) - 1))])
        self.buffer.go_on(self.publish())
        for repeated in self.log[-self.chance.randint(1, 5) :]:
            self.buffer.take(self.sent(repeated))
            self.buffer.reach(repeated.end)

    def join(self) -> None:
        if len(self.queries) < 4:
            publication = self.chance.choice(tuple(PUBLICATIONS))
            oids = frozenset(self.chance.sample(PUBLICATIONS[publication], self.chance.randint(1, 2)))
            self.queries.append(Query(str(len(self.queries)), oids, self.head, self.head))
            self.buffer.join(self.queries[-1].name, publication, oids)

    def plan(self) -> None:
        """One query plans and reads a batch, and commits it."""
        if not self.queries:
            return
        query = self.chance.choice(self.queries)
        member = self.buffer.members[query.name]
        if member.since > query.clear:
            query.lost += 1
            query.at = query.clear = self.head
        elif member.last > query.clear:
            chunks = self.buffer.chunks(query.name, query.clear, member.last)
            assert chunks is not None
            parts = [changes_of(chunk.changes(), query.oids, query.clear, member.last) for chunk in chunks]
            fetched = [row for part in parts for row in rows(part)]
            assert fetched == own_slot(self.log, query.oids, query.at, member.last)
            query.at = query.clear = member.last
            self.served += 1
        else:
            assert not own_slot(self.log, query.oids, query.at, self.buffer.head), "a change was not reported"
            query.clear = max(query.clear, self.buffer.head)
        self.buffer.commit(query.name, query.at)

    def end(self) -> None:
        for query in self.queries:
            self.buffer.commit(query.name, self.head)
            self.buffer.leave(query.name)
        assert not self.buffer._chunks, "nobody needs them"


def run(seed: int) -> tuple[int, int]:
    """One random run: batches from the buffer, and how often a query had to read its own slot."""
    world = World(seed)
    steps = (world.write, world.join, world.begin, world.hand_over, world.plan)
    for _ in range(300):
        world.chance.choices(steps, (43, 5, 2, 3, 47))[0]()
        held = sum(chunk.size for chunk in world.buffer._chunks)
        assert held == world.buffer._size <= world.buffer.limit
    world.end()
    return world.served, sum(query.lost for query in world.queries)


def test_each_query_gets_what_its_own_slot_has() -> None:
    totals = np.sum([run(seed) for seed in range(30)], axis=0)
    assert totals[0] > 250 and totals[1] > 25, totals


def test_a_session_that_ended_covers_nobody() -> None:
    buffer = Buffer()
    buffer.join("early", "p", [11])
    assert buffer.members["early"].since == NEVER
    buffer.begin(100, ["p"])
    buffer.join("other", "q", [12])
    assert (buffer.members["early"].since, buffer.members["other"].since) == (100, NEVER)
    buffer.end()
    assert buffer.members["early"].since == NEVER and buffer.chunks("early", 100, 100) is None


def test_queries_keep_what_they_have_when_another_session_takes_over() -> None:
    buffer = Buffer()
    buffer.begin(100, ["p"])
    buffer.join("early", "p", [11])
    buffer.join("new", "q", [13])
    both = Transaction(110, 120, (((11,), "I", "a"), ((13,), "I", "b")))
    buffer.take(messages(both, frozenset(PUBLICATIONS["p"]), set()))
    buffer.go_on(["p", "q"])
    assert (buffer.members["early"].since, buffer.members["new"].since) == (100, 120)
    described: set[int] = set()
    for repeated in (both, Transaction(130, 140, (((13,), "I", "c"),))):
        buffer.take(messages(repeated, frozenset(OIDS), described))
    early = buffer.chunks("early", 100, 140) or []
    new = buffer.chunks("new", 120, 140) or []
    assert [row[-1] for chunk in early for row in rows(changes_of(chunk.changes(), [11], 100, 140))] == ["a"]
    assert [row[-1] for chunk in new for row in rows(changes_of(chunk.changes(), [13], 120, 140))] == ["c"]


def test_a_table_that_changes_inside_a_transaction() -> None:
    """Each change has the description that the server sent before it, also at the beginning of a chunk."""
    buffer = Buffer()
    buffer.begin(100, ["p"])
    buffer.join("q", "p", [11])
    first, second = (Transaction(at, at + 10, (((11,), "I", "a"), ((11,), "I", "b"))) for at in (110, 130))
    buffer.take(messages(first, frozenset(OIDS), set()))
    assert buffer.chunks("q", 100, 120), "the chunk is complete"
    begin, one, other, commit = messages(second, frozenset(OIDS), {11})
    buffer.take([begin, one, relation(11).replace(b"\1v\0", b"\1w\0"), other, commit])
    (chunk,) = buffer.chunks("q", 120, 140) or ()
    assert [change.table.columns[0].name for change in chunk.changes()] == ["v", "w"]
