"""Tables and materialized views in Postgres, loaded by real queries: types, queries that share a table, loads that
never end, and a server that is killed while it is loaded. What the table holds is what the SELECT says."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.properties.values import resolve
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.local.ports import remembered_ports
from ds_dagster.local.server import Home, running
from ds_dagster.local.servers import down, up
from ds_dagster.spark.queries import arrow_rows
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.arrow_rows import FEW_BYTES
from ds_dagster.spark.queries.prepared import prepare
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.kind import Postgres
from ds_dagster.stores.postgres.loader import PostgresLoader

pytestmark = pytest.mark.servers
UTC = datetime.timezone.utc
EVENTS = "CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');"
KILLS = 2
BATCH = 200


class Server:
    """A Postgres of the module's own, which may be killed."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.found: LocalAddresses = up(state, only=["postgres"])
        self.password = Path(str(self.found.postgres_password_file)).read_text(encoding="utf-8").strip()

    @property
    def address(self) -> PostgresAddress:
        url, user = str(self.found.postgres), str(self.found.postgres_user)
        return PostgresAddress("pg", url, user, self.password, "disable")

    def kill(self) -> None:
        """The server and its sessions, at once."""
        record = running(Home(self.state, "postgres", remembered_ports(self.state)))
        assert record is not None
        os.kill(record.pid, signal.SIGSTOP)  # it starts no more sessions
        for pid in (*_children(record.pid), record.pid):
            os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        up(self.state, only=["postgres"])


def _children(parent: int) -> list[int]:
    return [
        int(pid) for task in Path(f"/proc/{parent}/task").iterdir() for pid in (task / "children").read_text().split()
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    state = tmp_path_factory.mktemp("postgres")
    try:
        yield Server(state)
    finally:
        down(state)


class Database:
    """Runs queries of a project into a schema of its own."""

    def __init__(self, bench: Any, server: Server) -> None:
        self.bench, self.server = bench, server
        self.schema = f"s_{uuid.uuid4().hex[:8]}"
        self.run(f"CREATE SCHEMA {self.schema}")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement in a session of its own; its rows."""
        connection = self.server.address.control()
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement.replace("{s}", self.schema))
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def compile(self, sql: str) -> None:
        """``{pg}`` stands for the store and the schema in a WITH."""
        store = (
            f"CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{self.server.found.postgres}', "
            f"'postgres.username' = '{self.server.found.postgres_user}', 'postgres.password' = '${{PG_PASSWORD}}', "
            "'postgres.sslmode' = 'disable');"
        )
        written = f"'store' = 'pg', 'postgresql.schema.name' = '{self.schema}'"
        self.bench.compile(f"{store}\n{sql.replace('{pg}', written)}")

    def start(self, name: str, version: int = 1, trigger: str = "continuous") -> Any:
        query = self.bench.project.queries[name]
        reads, _ = self.bench.specs(query, {})
        environment = {"PG_PASSWORD": self.server.password}
        prepared = prepare(
            self.bench.spark,
            query,
            reads=reads,
            writes={
                query.name: Postgres().write_spec(self.bench.project.catalog.store("pg"), query.sink, query.refresh)
            },
            identity=SinkIdentity(f"test/{name}", version),
            resolve=lambda value: resolve(value, environment, "store pg"),
            job_name=f"{name}_{uuid.uuid4().hex[:8]}",
            clock="manual",
            provider=self.bench.provide(self.bench.spark),
        )
        started = face.start(prepared, str(self.bench.folder / f"checkpoint-{name}-{version}"), trigger)  # type: ignore[arg-type]
        self.bench.running.append((prepared, started))
        return started


@pytest.fixture
def database(bench: Any, server: Server) -> Iterator[Database]:
    server.start()
    made = Database(bench, server)
    yield made
    bench.stop()
    made.run("DROP SCHEMA {s} CASCADE")


def test_every_type_through_spark(database: Database) -> None:
    database.compile(
        """CREATE STREAM things (b BOOLEAN, t TINYINT, s SMALLINT, i INTEGER, n BIGINT, f FLOAT, d DOUBLE,
             m DECIMAL(12,2), m38 DECIMAL(38,10), v VARCHAR, vn VARCHAR(5), da DATE, ti TIME, ts TIMESTAMP(3),
             tz TIMESTAMP_LTZ(3), a ARRAY<VARCHAR>, ad ARRAY<DECIMAL(6,2)>, aa ARRAY<ARRAY<INTEGER>>,
             st STRUCT<city VARCHAR, zip INTEGER>,
             mp MAP<VARCHAR, BIGINT>, ast ARRAY<STRUCT<x INTEGER>>)
             WITH ('topic' = 'things', 'value.format' = 'json');
           CREATE TABLE t WITH ({pg}) AS SELECT * FROM things;"""
    )
    database.bench.send(
        "things",
        {
            "b": True, "t": 7, "s": 300, "i": 70000, "n": 2**60, "f": 1.5, "d": 0.1, "m": "1234567890.25",
            "m38": "1.0000000001", "v": "ä€\U0001f600", "vn": "12345", "da": "2024-02-29", "ti": "12:13:14.5",
            "ts": "2024-02-29 12:00:00.007", "tz": "2024-02-29 12:00:00.007Z", "a": ["x", None], "ad": ["1.25"],
            "aa": [[1, 2], []], "st": {"city": "Köln", "zip": 50667}, "mp": {"x": 1}, "ast": [{"x": 1}],
        },
        {},
    )  # fmt: skip
    assert database.start("t", trigger="available_now").awaitTermination(120)
    names = "b, t, s, i, n, f, d, m, m38, v, vn, da, ti, ts, tz, a, ad, aa, st, mp, ast"
    full, empty = database.run(f"SELECT {names} FROM {{s}}.t ORDER BY n NULLS LAST")
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 7000)  # noqa: DTZ001, a TIMESTAMP has no zone
    assert full == (
        True, 7, 300, 70000, 2**60, 1.5, 0.1, decimal.Decimal("1234567890.25"), decimal.Decimal("1.0000000001"),
        "ä€\U0001f600", "12345", datetime.date(2024, 2, 29), datetime.time(12, 13, 14, 500000), moment,
        moment.replace(tzinfo=UTC), ["x", None], [decimal.Decimal("1.25")], [[1, 2], []],
        {"city": "Köln", "zip": 50667}, {"x": 1}, [{"x": 1}],
    )  # fmt: skip
    assert set(empty) == {None}


def test_a_view_in_a_declared_store_goes_on_after_a_restart(database: Database) -> None:
    database.compile(
        EVENTS + "CREATE MATERIALIZED VIEW counts WITH ({pg}) AS SELECT k, COUNT(*) AS n FROM events GROUP BY k;"
        "CREATE MATERIALIZED VIEW log WITH ({pg}) AS SELECT k, n FROM events;"
    )
    for more in ([{"k": "a", "n": 1}, {"k": "b", "n": 1}], [{"k": "a", "n": 2}]):
        database.bench.send("events", *more)
        for name in ("counts", "log"):
            database.bench.settle(database.start(name))
        database.bench.stop()
    assert sorted(database.run("SELECT k, n FROM {s}.counts")) == [("a", 2), ("b", 1)]
    assert sorted(database.run("SELECT k, n FROM {s}.log")) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("few", [0, FEW_BYTES])
def test_two_queries_that_never_end_share_a_table_of_a_user(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(arrow_rows, "FEW_BYTES", few)
    database.run(
        "CREATE TABLE {s}.seen (id bigint GENERATED ALWAYS AS IDENTITY, k text, n numeric, "
        "at timestamptz DEFAULT now())"
    )
    database.compile(
        EVENTS + "CREATE STREAM more (k VARCHAR, n BIGINT) WITH ('topic' = 'more', 'value.format' = 'json');"
        "CREATE TABLE seen (k VARCHAR, n BIGINT) WITH ({pg}, 'refresh.mode' = 'continuous');"
        "INSERT INTO seen SELECT k, n FROM events QUERY WITH ('query.name' = 'one');"
        "INSERT INTO seen SELECT k, n FROM more QUERY WITH ('query.name' = 'two');"
    )
    for _ in range(2):
        database.bench.send("events", {"k": "a", "n": 1})
        database.bench.send("more", {"k": "b", "n": 2})
        for query in [database.start(name) for name in ("one", "two")]:
            database.bench.settle(query)
        database.bench.stop()
    found = database.run("SELECT k, n::int, count(*), count(at) FROM {s}.seen GROUP BY 1, 2 ORDER BY 1")
    assert found == [("a", 1, 2, 2), ("b", 2, 2, 2)]


def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append, whose rows are written while others are computed, and an upsert with deletes, fed all the time; the
    queries start again as the engine starts them."""
    monkeypatch.setattr(arrow_rows, "FEW_BYTES", 0)
    database.compile(
        EVENTS + "CREATE CHANGELOG users (k VARCHAR, n BIGINT, PRIMARY KEY (k)) "
        "WITH ('topic' = 'users', 'value.format' = 'json');"
        "CREATE TABLE log WITH ({pg}, 'refresh.mode' = 'continuous') AS SELECT k, n FROM events;"
        "CREATE TABLE people WITH ({pg}, 'refresh.mode' = 'continuous') AS SELECT k, n FROM users;"
    )
    sent: Counter[tuple[str, int]] = Counter()
    people: dict[str, int] = {}

    def feed(number: int) -> None:
        rows = [{"k": f"k{n % 97}", "n": number * BATCH + n} for n in range(BATCH)]
        sent.update((str(row["k"]), int(str(row["n"]))) for row in rows)
        database.bench.send("events", *rows)
        records: list[tuple[object, object, int, str]] = []
        for row in rows:
            key, gone = str(row["k"]), (number + int(str(row["n"]))) % 5 == 0
            records.append(({"k": key}, None if gone else row, 0, "0"))
            people.pop(key, None)
            if not gone:
                people[key] = int(str(row["n"]))
        database.bench.topic("users").send_all(records)

    number = 0
    for _ in range(KILLS):
        queries = [database.start(name) for name in ("log", "people")]
        begun = number
        while any(query.isActive for query in queries):
            feed(number)
            number += 1
            if number - begun == 8:
                database.server.kill()
        faults = [database.bench.fault(query) for query in queries]
        assert {fault.fault.domain for fault in faults} == {"external"}, faults
        database.bench.stop()
        database.server.start()
    for name in ("log", "people"):
        database.bench.settle(database.start(name))
    assert Counter(database.run("SELECT k, n FROM {s}.log")) == sent
    assert dict(database.run("SELECT k, n FROM {s}.people")) == people


def test_an_engine_that_dies_while_rows_are_written_loses_and_doubles_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the first rows; behind the commit of the table, before that of the checkpoint."""
    monkeypatch.setattr(arrow_rows, "FEW_BYTES", 0)
    database.compile(EVENTS + "CREATE TABLE log WITH ({pg}, 'refresh.mode' = 'continuous') AS SELECT k, n FROM events;")
    parts, load = arrow_rows.ArrowRows.parts, PostgresLoader.load_stream

    def cut(rows: Any) -> Any:
        yield next(parts(rows))
        raise RuntimeError("the engine dies")

    def late(loader: Any, rows: Any, batch: Any) -> Any:
        load(loader, rows, batch)
        raise RuntimeError("the engine dies")

    sent = []
    for place, dies in enumerate(((arrow_rows.ArrowRows, "parts", cut), (PostgresLoader, "load_stream", late))):
        sent.append((f"k{place}", place))
        database.bench.send("events", *({"k": key, "n": n} for key, n in sent[-1:]))
        with monkeypatch.context() as once:
            once.setattr(*dies)
            assert database.bench.fault(database.start("log")) is not None
        database.bench.stop()
    database.bench.settle(database.start("log"))
    assert sorted(database.run("SELECT k, n FROM {s}.log")) == sent
    assert database.run("SELECT sum(rows)::int FROM {s}.ds_ledger") == [(len(sent),)]
