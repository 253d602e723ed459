"""``'state.ttl.millis'`` over random changelogs and a random clock: what is written is what a model says.

The model forgets by the table of the page Semantics: a row of a changelog that is read is known for a time after its
last upsert; a step knows what changed for the same time, sees its state as it is at the begin of a batch, and writes
the difference of its answers before and behind the batch. The clock is moved by hand; a batch that is repeated has the
time it had.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ds_dagster.spark.faults import SPARK_ERRORS
from tests.buckets import buckets_of
from tests.spark.operators.test_state_ttl import ORDERS, Clock
from tests.testing.seeds import seed

SEED = seed(20261122)
TTL = 1000
KEYS = {"orders": "id", "customers": "name"}
NULLABLE = "WITH ('primary.key.nullable' = TRUE)"
Row = tuple[Any, ...]
Deltas = list[tuple[Row, int]]
Written = dict[Row, Row | None]
"""Key → its row, None for a delete."""


class Kept:
    """What is known, each thing until nothing has touched it for a time."""

    def __init__(self) -> None:
        self.things: dict[Any, tuple[Any, int]] = {}

    def at(self, now: int) -> dict[Any, Any]:
        self.things = {key: found for key, found in self.things.items() if now - found[1] < TTL}
        return {key: value for key, (value, _) in self.things.items()}

    def put(self, key: Any, value: Any, now: int) -> None:
        self.things[key] = (value, now)

    def drop(self, key: Any) -> None:
        self.things.pop(key, None)


class Read:
    """A changelog that is read: upserts and deletes → rows that come and go."""

    def __init__(self) -> None:
        self.rows = Kept()

    def take(self, changes: Iterable[tuple[Any, Row | None]], now: int) -> Deltas:
        known, found = self.rows.at(now), Deltas()
        for key, row in dict(changes).items():
            before = known.get(key)
            if row is None:
                self.rows.drop(key)
            else:
                self.rows.put(key, row, now)
            if row != before:
                found += [(before, -1)] if before else []
                found += [(row, 1)] if row else []
        return found


class Groups:
    """COUNT(*), SUM(amount), MIN(amount), COUNT(DISTINCT amount) by customer."""

    def __init__(self) -> None:
        self.totals, self.values = Kept(), Kept()

    def take(self, topic: str, deltas: Deltas, now: int) -> Written:
        by_group: dict[Any, Counter[Any]] = defaultdict(Counter)
        for (_, customer, amount), weight in deltas:
            by_group[customer][amount] += weight
        written: Written = {}
        for group, changes in by_group.items():
            before = self.totals.at(now).get(group)
            after = self._changed(group, before, changes, now)
            if after != before:
                written[(group,)] = None if after is None else (group, *after)
        return written

    def _changed(self, group: Any, before: Row | None, changes: Counter[Any], now: int) -> Row | None:
        known = self.values.at(now) if before else {}
        changes = changes if before else Counter({amount: n for amount, n in changes.items() if n > 0})
        count, total, least, kinds = before or (0, 0, None, 0)
        count, total = count + sum(changes.values()), total + sum(a * n for a, n in changes.items())
        is_lost = False
        for amount, weight in changes.items():
            held = known.get((group, amount), 0)
            copies = max(held + weight, 0)
            if weight and copies:
                self.values.put((group, amount), copies, now)
            elif weight:
                self.values.drop((group, amount))
            kinds += (copies > 0) - (held > 0)
            if copies > held == 0:
                least = amount if least is None else min(least, amount)
            is_lost |= bool(weight) and not copies and amount == least
        held_now = [amount for of, amount in self.values.at(now) if of == group]
        least = min(held_now, default=None) if is_lost else least
        if count <= 0:
            self.totals.drop(group)
            for amount in held_now:
                self.values.drop((group, amount))
            return None
        self.totals.put(group, (count, total, least, kinds), now)
        return count, total, least, kinds


@dataclass
class Answered:
    """A step that keeps the rows of its inputs, each by itself, and shows an answer over them."""

    answer: Callable[[list[Row], list[Row]], Iterable[Row]]
    key: tuple[int, ...]
    kept: dict[str, Kept] = field(default_factory=lambda: {topic: Kept() for topic in KEYS})

    def take(self, topic: str, deltas: Deltas, now: int) -> Written:
        before = self.shown(now)
        known, changes = self.kept[topic].at(now), Counter[Row]()
        for row, weight in deltas:
            changes[self.kind(topic, row)] += weight
        for row, weight in changes.items():
            if weight > 0:
                self.kept[topic].put(row, row, now)
            elif weight < 0 and row in known:
                self.kept[topic].drop(row)
        return difference(before, self.shown(now), self.key)

    def kind(self, _: str, row: Row) -> Row:
        return row

    def shown(self, now: int) -> Counter[Row]:
        return Counter(self.answer(*(list(self.kept[topic].at(now)) for topic in KEYS)))


class Partnered(Answered):
    """The same where only the names of customers are seen: a customer who moves is no change."""

    def kind(self, topic: str, row: Row) -> Row:
        return row[:1] if topic == "customers" else row


@dataclass
class Divided:
    """A step that keeps what it knows by part, and forgets a part as a whole."""

    part: Callable[[str, Row], Any]
    answer: Callable[[Any, Counter[Row]], Iterable[Row]]
    key: tuple[int, ...]
    parts: Kept = field(default_factory=Kept)

    def take(self, topic: str, deltas: Deltas, now: int) -> Written:
        by_part: dict[Any, Counter[Row]] = defaultdict(Counter)
        for row, weight in deltas:
            by_part[self.part(topic, row)][self.kind(row)] += weight
        before, after = Counter[Row](), Counter[Row]()
        for part, changes in by_part.items():
            if not any(changes.values()):
                continue
            held = Counter(self.parts.at(now).get(part, Counter()))
            holds = Counter({row: n for row in held | changes if (n := max(held[row] + changes[row], 0))})
            self.parts.put(part, holds, now)
            if not holds:
                self.parts.drop(part)
            before.update(self.answer(part, held))
            after.update(self.answer(part, holds))
        return difference(before, after, self.key)

    def kind(self, row: Row) -> Row:
        return row


class Copies(Divided):
    """The same where rows of a part are copies of one another."""

    def kind(self, row: Row) -> Row:
        return ()


def difference(before: Counter[Row], after: Counter[Row], key: tuple[int, ...]) -> Written:
    """What is written: a key whose rows only went is deleted."""
    gone, come = before - after, after - before
    written: Written = {tuple(row[at] for at in key): None for row in gone}
    return written | {tuple(row[at] for at in key): row for row in come}


def fold(table: dict[Any, Row], written: Mapping[Any, Row | None]) -> None:
    for key, row in written.items():
        table.pop(key, None)
        if row is not None:
            table[key] = row


def pairs(orders: list[Row], customers: list[Row], *, left: bool = False, right: bool = False) -> Iterator[Row]:
    """(id, name, city)."""
    for order in orders:
        found = [(order[0], name, city) for name, city in customers if name == order[1]]
        yield from found or ([(order[0], None, None)] if left else [])
    if right:
        yield from ((None, *customer) for customer in customers if all(o[1] != customer[0] for o in orders))


def first_two(_: Any, rows: Counter[Row]) -> list[Row]:
    return [(id_, amount) for id_, _, amount in sorted(rows, key=lambda row: (row[2], row[0]))[:2]]


def with_partner(orders: list[Row], customers: list[Row], *, has: bool) -> list[Row]:
    names = {name for name, *_ in customers}
    return [(id_, amount) for id_, customer, amount in orders if (customer in names) is has]


JOINED = "SELECT o.id, c.name, c.city FROM orders o {} JOIN customers c ON o.customer = c.name"
QUESTIONS: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "groups": (
        "",
        """SELECT customer, COUNT(*) AS n, SUM(amount) AS s, MIN(amount) AS lo, COUNT(DISTINCT amount) AS d
           FROM orders GROUP BY customer""",
        Groups,
    ),
    "inner": ("", JOINED.format(""), lambda: Answered(pairs, (0,))),
    "left": ("", JOINED.format("LEFT"), lambda: Answered(lambda o, c: pairs(o, c, left=True), (0,))),
    "full": (
        NULLABLE,
        JOINED.format("FULL"),
        lambda: Answered(lambda o, c: pairs(o, c, left=True, right=True), (0, 1)),
    ),
    "semi": (
        "",
        "SELECT id, amount FROM orders WHERE customer IN (SELECT name FROM customers)",
        lambda: Partnered(lambda o, c: with_partner(o, c, has=True), (0,)),
    ),
    "anti": (
        "",
        "SELECT id, amount FROM orders o WHERE NOT EXISTS (SELECT * FROM customers c WHERE c.name = o.customer)",
        lambda: Partnered(lambda o, c: with_partner(o, c, has=False), (0,)),
    ),
    "distinct": (
        NULLABLE,
        "SELECT DISTINCT customer FROM orders",
        lambda: Copies(lambda _, row: row[1], lambda part, rows: [(part,)] if rows else [], (0,)),
    ),
    "union": (
        NULLABLE,
        "SELECT customer AS who FROM orders UNION SELECT name AS who FROM customers",
        lambda: Copies(
            lambda topic, row: row[1] if topic == "orders" else row[0],
            lambda part, rows: [(part,)] if rows else [],
            (0,),
        ),
    ),
    "ranked": (
        "",
        """SELECT id, amount FROM (SELECT id, amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id)
           AS rn FROM orders) q WHERE rn <= 2""",
        lambda: Divided(lambda _, row: row[1], first_two, (0,)),
    ),
}
ALWAYS = ("groups", "left", "ranked")
"""What runs with every build: a step of each sort; the others run with the long tests."""
SHORT = 9
"""Batches of those: one restart and one crash are among them."""


@dataclass(frozen=True)
class Batch:
    """One batch of one topic, ``wait`` milliseconds after the one before."""

    wait: int
    topic: str
    changes: list[tuple[Any, Row | None]]


def batches(dice: random.Random, count: int, topics: tuple[str, ...]) -> list[Batch]:
    """Inserts, updates, deletes of what is there and of what is not, upserts that change nothing."""
    newest: dict[Any, Row | None] = {}
    made = []
    for _ in range(count):
        topic = dice.choice(topics)
        changes: list[tuple[Any, Row | None]] = []
        for _ in range(dice.randrange(1, 4)):
            key = dice.choice("xyz") if topic == "customers" else f"o{dice.randrange(6)}"
            if dice.random() < 0.25:
                row: Row | None = None
            elif dice.random() < 0.2 and newest.get(key):
                row = newest[key]
            elif topic == "customers":
                row = (key, dice.choice(["Rome", "Oslo", "Bonn"]))
            else:
                row = (key, dice.choice("xyz"), dice.randrange(9))
            newest[key] = row
            changes.append((key, row))
        made.append(Batch(dice.choice([0, 150, 400, 700, 1000, 1100]), topic, changes))
    return made


def records(batch: Batch) -> list[tuple[object, object, int, str]]:
    columns = {"orders": ("id", "customer", "amount"), "customers": ("name", "city")}[batch.topic]
    return [
        ({KEYS[batch.topic]: key}, None if row is None else dict(zip(columns, row, strict=True)), 0, "0")
        for key, row in batch.changes
    ]


class CrashOnce:
    """Keeps a batch, and dies behind it once where it is told to."""

    def __init__(self, bench: Any) -> None:
        self.keep = bench.keep
        self.armed = False
        bench.keep = self

    def __call__(self, batch: Any, epoch: int) -> None:
        self.keep(batch, epoch)
        if self.armed:
            self.armed = False
            raise RuntimeError("dies behind its write")


def check_random(bench: Any, question: str, seed: int, count: int) -> None:
    topics = tuple(topic for topic in KEYS if topic in QUESTIONS[question][1])
    check(bench, question, batches(random.Random(seed), count, topics))


def check(bench: Any, question: str, history: list[Batch]) -> None:
    with_, select, made = QUESTIONS[question]
    bench.compile(f"{ORDERS}CREATE CHANGELOG c {with_} AS {select} QUERY WITH ('state.ttl.millis' = {TTL});")
    read, step, wanted = {topic: Read() for topic in KEYS}, made(), dict[Row, Row]()
    crash, now = CrashOnce(bench), 1_000_000
    query = bench.start("c")
    clock = Clock(bench, query, now)
    for number, batch in enumerate(history):
        clock.wait(batch.wait)
        now += batch.wait
        if number % 8 == 3:
            bench.stop()
            query = bench.start("c")
            clock = Clock(bench, query, now)
        crash.armed = number % 8 == 6
        bench.topic(batch.topic).send_all(records(batch))
        fold(wanted, step.take(batch.topic, read[batch.topic].take(batch.changes, now), now))
        if crash.armed:
            with pytest.raises(SPARK_ERRORS):
                bench.settle(query)
            bench.stop()
            now += TTL  # what the batch knew is forgotten by now, but it is the same batch
            query = bench.start("c")
            clock = Clock(bench, query, now)
        bench.settle(query)
        found = sorted((tuple(row.values()) for row in bench.folded().values()), key=repr)
        assert found == sorted(wanted.values(), key=repr), f"batch {number} of {question}, at {now}: {batch}"
    assert wanted or question == "inner"


MARKED = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in QUESTIONS]


@pytest.mark.parametrize("question", MARKED)
def test_a_query_forgets_as_the_model_does(question: str, bench: Any) -> None:
    check_random(bench, question, SEED, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("question", QUESTIONS)
def test_over_longer_histories(question: str, seed: int, bench: Any) -> None:
    check_random(bench, question, SEED + seed, 60)


def test_a_value_that_went_and_came_again_is_known_for_its_own_time(bench: Any) -> None:
    """Found with DS_ORACLE_SEED=194875623: the time of the value that went took the one that came."""
    history = [
        Batch(0, "orders", [("o0", ("o0", "y", 7)), ("o1", ("o1", "y", 2))]),
        Batch(0, "orders", [("o0", None)]),
        Batch(600, "orders", [("o2", ("o2", "y", 7))]),
        Batch(600, "orders", [("o3", ("o3", "y", 5))]),
        Batch(0, "orders", [("o2", ("o2", "y", 1))]),
    ]
    check(bench, "groups", history)


def test_a_large_group_forgets_as_the_model_does(bench: Any) -> None:
    """Of two rows a group is large here: its values are kept in their order, and forgotten there too."""
    with buckets_of(bench.spark, 32):
        check_random(bench, "groups", SEED, SHORT)


def test_the_model_without_time_is_a_plain_query() -> None:
    """Nothing forgotten: folding what the model writes gives the answer over the rows that stand at the end."""
    made = batches(random.Random(SEED), 200, ("orders", "customers"))
    tables: dict[str, dict[Any, Row]] = {topic: {} for topic in KEYS}
    read, steps = {topic: Read() for topic in KEYS}, {name: made_() for name, (_, _, made_) in QUESTIONS.items()}
    wanted: dict[str, dict[Row, Row]] = {name: {} for name in steps}
    for batch in made:
        fold(tables[batch.topic], dict(batch.changes))
        deltas = read[batch.topic].take(batch.changes, 0)
        for name, step in steps.items():
            if batch.topic in QUESTIONS[name][1]:
                fold(wanted[name], step.take(batch.topic, deltas, 0))
    orders, customers = (list(tables[topic].values()) for topic in KEYS)
    by_customer: dict[Any, list[Any]] = defaultdict(list)
    for _, customer, amount in orders:
        by_customer[customer].append(amount)
    groups = [(k, len(a), sum(a), min(a), len(set(a))) for k, a in by_customer.items()]
    assert sorted(wanted["groups"].values()) == sorted(groups)
    assert sorted(wanted["left"].values(), key=repr) == sorted(pairs(orders, customers, left=True), key=repr)
    assert sorted(wanted["union"].values()) == sorted({(o[1],) for o in orders} | {(c[0],) for c in customers})
    parts = {k: Counter(o for o in orders if o[1] == k) for k in by_customer}
    assert sorted(wanted["ranked"].values()) == sorted(row for part in parts.values() for row in first_two("", part))
