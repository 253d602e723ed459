"""Queries that share a replication session, against readers of their own slots over the same log."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.spark.planner import companions
from ds_dagster.spark.planner.shared import Planner
from ds_dagster.spark.postgres_cdc import source as source_module
from ds_dagster.spark.postgres_cdc.live import following as following_module
from ds_dagster.spark.postgres_cdc.live import hub as hub_module
from ds_dagster.spark.postgres_cdc.live.buffer import Buffer
from tests.spark.postgres_cdc.reading import BIG, KEYED, TABLE, TEXT, Reader, struct

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(sys.platform != "linux", reason="the planner needs Linux"),
]
WHOLE_ROWS = struct(op=TEXT, before=TEXT, after=TEXT, source=struct(table=TEXT, lsn=BIG))
SESSIONS = "SELECT count(*) FROM pg_replication_slots WHERE temporary AND active"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries join again at once, and look at their slots often."""
    monkeypatch.setattr(following_module, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(source_module, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(source_module, "ADVANCE_SECONDS", 0.5)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, until: Any) -> Iterator[Planner]:
    """A planner, of which this process is a fork as far as companions are concerned."""
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: make(prefix=prefix, dir="/tmp"))
    planner = Planner()
    program = planner.program("ds_dagster.spark.postgres_cdc.source")
    assert program is not None
    monkeypatch.setattr(companions.PLACE, "folder", Path(program).parent)
    yield planner
    pids = hubs(planner)
    planner.stop()
    until(lambda: not any(is_alive(pid) for pid in pids), "the end of the hub")


@pytest.fixture
def small_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Starts a hub in this process, with a limit for its memory."""
    read, write = os.pipe()
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []
    folders: list[str] = []

    def start(limit: int) -> None:
        folders.append(tempfile.mkdtemp(prefix="ds-hub-", dir="/tmp"))
        path = f"{folders[0]}/hub"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)
        make = hub_module.Hub
        monkeypatch.setattr(hub_module, "Hub", lambda: make(Buffer(limit=limit)))
        monkeypatch.setattr(companions, "companion", lambda module, key: path)
        monkeypatch.setattr(companions, "is_possible", lambda: True)
        threads.append(threading.Thread(target=hub_module.serve, args=(listener, read)))
        threads[0].start()

    yield start
    os.close(write)
    for thread in threads:
        thread.join()
    os.close(read)
    for listener in listeners:
        listener.close()
    for folder in folders:
        shutil.rmtree(folder)


def hubs(planner: Planner) -> list[int]:
    assert planner.process is not None
    parent = str(planner.process.pid)
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and (folder / "stat").read_text().rpartition(")")[2].split()[1] == parent:
                found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def kill(planner: Planner, number: signal.Signals) -> None:
    """Send a signal to the planner's hub."""
    for pid in hubs(planner):
        os.kill(pid, number)


def follows(reader: Reader) -> bool:
    """Step once; whether the query has what it needs from the session."""
    reader.step()
    standing = reader.reader._live._standing
    return standing is not None and standing.since <= reader.reader._clear


def has(reader: Reader, count: int) -> bool:
    """Step once; whether the query has so many rows."""
    reader.step()
    return len(reader.rows) >= count


def same(until: Any, reader: Reader, witness: Reader) -> None:
    """Both have the same rows in the end."""
    witness.drain()
    until(lambda: has(reader, len(witness.rows)), "the rows")
    assert reader.rows == witness.rows


TABLES = """
CREATE TABLE s.a (id bigint PRIMARY KEY, v text, n numeric, f real, at timestamptz, raw bytea, i interval, xs int[]);
CREATE TABLE s.b (id bigint PRIMARY KEY, v text); CREATE TABLE s.c (id bigint PRIMARY KEY, v text);
ALTER TABLE s.c REPLICA IDENTITY FULL
"""
VALUES = "%s, %s, 1.50, 0.1, '2024-02-29 12:00+02', '\\x00ff', '1 day 2 hours', '{1,NULL}'"


def write(database: Any, chance: random.Random) -> None:
    """A transaction over some tables."""
    parts: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(chance.randint(1, 4)):
        table, key, text = chance.choice("abc"), chance.randrange(40), chance.choice(["", "é" * 40, 'q"\\\n', None])
        upsert = "ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        values = VALUES if table == "a" else "%s, %s"
        parts.append(chance.choice([
            (f"INSERT INTO s.{table} VALUES ({values}) {upsert}", (key, text)),
            (f"INSERT INTO s.{table} VALUES ({values}) {upsert}", (key, text)),
            (f"UPDATE s.{table} SET id = id + 100 WHERE id = %s", (key,)),
            (f"DELETE FROM s.{table} WHERE id < %s", (key // 2,)),
        ]))  # fmt: skip
    with database.connect() as connection, connection.cursor() as cursor:
        connection.autocommit = False
        with suppress(Exception):  # a key that exists: the transaction is rolled back
            for statement, values in parts:
                cursor.execute(statement, values)
            if chance.random() < 0.1:
                cursor.execute("TRUNCATE s.b, s.c")
            connection.commit() if chance.random() < 0.9 else connection.rollback()
    connection.close()


def test_random_changes_crashes_and_ends_of_sessions(database, planner, open_reader, until):
    """No row is lost, doubled or different, whoever is killed between two steps."""
    database.sql(TABLES)
    chance = random.Random(20261128)
    lists = {"one": "s.a", "two": "s.b\ns.c", "three": "s.a\ns.c"}
    latest = {"starting.position": "latest"}
    pairs = [
        [open_reader(WHOLE_ROWS, tables=tables, slot=name + side, live=live, **latest)
         for side, live in (("", "true"), ("_own", "false"))]
        for name, tables in lists.items()
    ]  # fmt: skip
    for reader, witness in pairs:
        witness.step()
        until(lambda reader=reader: follows(reader), "the session")
    for number in range(60):
        write(database, chance)
        for reader, _ in pairs:
            chance.choices((reader.step, reader.crash, reader.restart, bool), (60, 10, 3, 27))[0]()
        if number % 45 == 20:
            column = f"ALTER TABLE s.b ADD w{number} text DEFAULT 'w'"
            database.sql(
                f"INSERT INTO s.b VALUES (-{number}, 'x'); {column}; INSERT INTO s.b VALUES (-1 - {number}, 'y')"
            )
        if number % 30 == 10:
            kill(planner, signal.SIGKILL)
        if number % 30 == 25:
            database.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE temporary")
        if number % 10 == 9:
            for reader, _ in pairs:
                until(lambda reader=reader: follows(reader), "the session again")
    for reader, witness in pairs:
        same(until, reader, witness)
    assert sum(reader.shared for reader, _ in pairs) > 5, "batches came from the session"
    until(lambda: database.sql(SESSIONS) == [(1,)], "one session")

    def has_caught_up() -> bool:
        pairs[0][0].step()
        facts = pairs[0][0].reader.reportLatestOffset()["0"]
        return facts["millis_behind"] == 0 and facts["lag_bytes"] == 0

    until(has_caught_up, "figures of a query that has read everything")


def test_a_batch_whose_session_ended_is_read_from_the_slot(database, planner, open_reader, until):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    until(lambda: follows(reader), "the session")
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    end = until(reader.plan, "the change")
    assert reader.reader.partitions(reader.position, end)[0].value.live
    kill(planner, signal.SIGKILL)
    assert [row["row"]["id"] for row in reader.read(end)] == [1]


def test_a_hub_that_hangs_is_left(database, planner, open_reader, until, monkeypatch):
    monkeypatch.setattr(following_module, "LAG_SECONDS", 0.5)
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    until(lambda: follows(reader), "the session")
    kill(planner, signal.SIGSTOP)
    try:
        database.sql("INSERT INTO s.t VALUES (1, 'a')")
        until(lambda: reader.step() or reader.rows, "the change")
    finally:
        kill(planner, signal.SIGKILL)
    assert [row["row"]["id"] for row in reader.rows] == [1]


def test_a_slow_query_holds_nobody_up(database, small_hub, open_reader, until):
    """What it has not read is dropped when memory is full; it reads its own slot, then follows again. So does everyone
    after a transaction that is larger than the memory."""
    small_hub(20_000)
    database.sql(TABLE)
    slow, fast = open_reader(KEYED, "id", slot="slow"), open_reader(KEYED, "id", slot="fast")
    for reader in (slow, fast):
        until(lambda reader=reader: follows(reader), "the session")
    for number in range(400):
        database.sql("INSERT INTO s.t VALUES (%s, repeat('x', 100))", number)
        if number % 20 == 19:
            until(lambda wanted=number + 1: has(fast, wanted), "the fast query's rows")
    assert slow.reader._live._connection is not None
    same(until, slow, fast)
    shared = slow.shared
    assert fast.shared > 10
    database.sql("INSERT INTO s.t SELECT g, repeat('x', 100) FROM generate_series(1000, 2000) g")
    for reader in (slow, fast):
        until(lambda reader=reader: has(reader, 1401), "the large transaction")
        until(lambda reader=reader: follows(reader), "the session again")
    database.sql("DELETE FROM s.t WHERE id < 3")
    for reader in (slow, fast):
        until(lambda reader=reader: has(reader, 1404), "the deletes")
        assert reader.folded("id") == database.rows("s.t")
    assert slow.shared > shared


def test_a_query_that_joins_disturbs_nobody(database, planner, open_reader, until):
    """A session with its publication takes the place of the former one, and keeps what the first query has not read."""
    database.sql(TABLE)
    database.sql("CREATE TABLE s.other (id bigint PRIMARY KEY, v text)")
    first = open_reader(KEYED, "id", slot="first")
    until(lambda: follows(first), "the session")
    session = "SELECT active_pid FROM pg_replication_slots WHERE temporary AND active"
    former = database.sql(session)
    database.sql("INSERT INTO s.t VALUES (1, 'before')")
    new = open_reader(KEYED, "id", tables="s.other", slot="new")
    until(lambda: follows(new) and database.sql(session) != former, "another session")
    until(lambda: len(database.sql(session)) == 1, "the end of the former session")
    database.sql("INSERT INTO s.t VALUES (2, 'after')")
    database.sql("INSERT INTO s.other VALUES (1, 'after')")
    for reader, ids in ((first, [1, 2]), (new, [1])):
        until(lambda reader=reader, ids=ids: has(reader, len(ids)), "the rows")
        assert [row["row"]["id"] for row in reader.rows] == ids
        assert reader.shared == sum(size > 0 for size in reader.sizes), "every batch came from a session"


@pytest.mark.parametrize("live", ["true", "false"])
def test_a_query_without_another_source_waits_for_a_change(database, planner, open_reader, until, monkeypatch, live):
    """One request for the next offset is answered by a change that is committed after it; an idle one ends."""
    database.sql(TABLE)
    reader = open_reader(KEYED, "id", live=live, wait="true")
    monkeypatch.setattr(source_module, "WAIT_SECONDS", 0.02)
    reader.drain()
    until(lambda: live == "false" or follows(reader), "the session")
    until(lambda: reader.plan() is None, "an idle query")
    waits, begun = following_module.Following.wait, threading.Event()
    monkeypatch.setattr(following_module.Following, "wait", lambda *rest: begun.set() or waits(*rest))
    monkeypatch.setattr(source_module, "WAIT_SECONDS", 60.0)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(reader.plan)
        assert begun.wait(30)
        database.sql("INSERT INTO s.t VALUES (1, 'a')")
        assert [row["row"]["id"] for row in reader.read(end.result())] == [1]


def test_which_publications_are_shared(database, planner, open_reader, until):
    """Filters and partitions mean something else next to other publications; a change of its publication ends a
    membership, and the slot is advanced while a query follows."""
    database.sql(TABLE)
    database.sql("CREATE TABLE s.p (id bigint PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    database.sql("CREATE TABLE s.p1 PARTITION OF s.p FOR VALUES FROM (0) TO (100)")
    database.sql("CREATE PUBLICATION filtered FOR TABLE s.t WHERE (id > 10) WITH (publish_via_partition_root)")
    filtered = open_reader(KEYED, "id", slot="filtered")
    part = open_reader(KEYED, "id", tables="s.p1", slot="part")
    whole = open_reader(KEYED, "id", tables="s.p", slot="whole")
    filtered.drain()
    part.drain()
    until(lambda: follows(whole), "the session")
    database.sql("INSERT INTO s.t VALUES (1, 'a'), (11, 'b')")
    database.sql("INSERT INTO s.p VALUES (1, 'a')")
    for reader, ids in ((filtered, [11]), (part, [1]), (whole, [1])):
        until(lambda reader=reader: reader.step() or reader.rows, "a row")
        assert [row["row"]["id"] for row in reader.rows] == ids
    assert (filtered.shared, part.shared, whole.shared) == (0, 0, 1)
    first = whole.reader._live.member
    database.sql("ALTER PUBLICATION whole SET (publish = 'insert, update, delete')")
    until(lambda: whole.step() or not whole.reader._live.member, "the end of the membership")
    database.sql("ALTER PUBLICATION whole SET (publish = 'insert, update, delete, truncate')")
    until(lambda: follows(whole), "the session again")
    assert whole.reader._live.member != first
    wanted = whole.position["changes"]["0"]["lsn"]
    advanced = "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'whole' AND confirmed_flush_lsn >= %s::pg_lsn"
    until(lambda: whole.step() or database.sql(advanced, wanted), "the slot's position")
