"""A real Postgres with logical replication, and queries over its changes as the engine would start them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ds_dagster.catalog.io_spec import LoadResult, ReadSpec, SinkIdentity
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.properties.values import resolve as resolve_value
from ds_dagster.local import postgres as local_postgres
from ds_dagster.local.server import Home, read_record, start_server, stop_server
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.stores.registry import KINDS
from tests.spark.postgres_cdc.reading import Reader

DEADLINE = 90.0
Row = dict[str, Any]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Database:
    """One running server; ``sql`` runs statements, each its own transaction."""

    home: Home
    connection: Any = None

    @property
    def password(self) -> str:
        return local_postgres.password_file(self.home.state).read_text(encoding="utf-8").strip()

    @property
    def url(self) -> str:
        return f"postgresql://127.0.0.1:{self.home.port}/postgres"

    def connect(self, database: str = "postgres") -> Any:
        made = psycopg2.connect(self.url, user="postgres", password=self.password, dbname=database)
        made.autocommit = True
        return made

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        if self.connection is None or self.connection.closed:
            self.connection = self.connect()
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def rows(self, table: str) -> list[Row]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
            found = [dict(zip((d.name for d in cursor.description), row, strict=True)) for row in cursor.fetchall()]
        connection.close()
        return found

    def kill(self) -> None:
        """kill -9 of the server and all its processes, then a new start with crash recovery."""
        import os
        import signal

        record = read_record(self.home)
        assert record is not None
        os.killpg(os.getpgid(record.pid), signal.SIGKILL)
        until(lambda: not record.alive, "the server's end")
        self.connection = None
        start_server(local_postgres.SERVER, self.home, lambda text: None)


def until(look: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Poll until ``look`` gives something true."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return seen


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    home = Home(tmp_path_factory.mktemp("cdc"), "postgres", {"postgres": free_port()})
    start_server(local_postgres.SERVER, home, lambda text: None)
    found = Database(home)
    yield found
    stop_server(local_postgres.SERVER, home)


@pytest.fixture
def database(server: Database) -> Iterator[Database]:
    """The server, its replication slots, publications and the schema ``s`` made anew."""
    server.sql("DROP SCHEMA IF EXISTS s CASCADE")
    server.sql("CREATE SCHEMA s")
    yield server
    busy = "SELECT 1 FROM pg_replication_slots WHERE active AND NOT temporary"
    until(lambda: not server.sql(busy), "no slot in use")
    server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT temporary")
    for (name,) in server.sql("SELECT pubname FROM pg_publication"):
        server.sql(f'DROP PUBLICATION "{name}"')


@pytest.fixture
def other_server(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Database]]:
    """A server of its own, (re)started with other settings."""
    home = Home(tmp_path_factory.mktemp("other"), "postgres", {"postgres": free_port()})

    def start(**settings: str) -> Database:
        stop_server(local_postgres.SERVER, home)
        monkeypatch.setattr(local_postgres, "SETTINGS", {**local_postgres.SETTINGS, **settings})
        start_server(local_postgres.SERVER, home, lambda text: None)
        return Database(home)

    yield start
    stop_server(local_postgres.SERVER, home)


@dataclass
class Kept:
    """A loader that keeps tables as they come; a replayed epoch is a no-op, as the contract asks."""

    loaded: dict[int, list[Row]] = field(default_factory=dict)
    crash: str = ""

    def prepare(self, tip: CheckpointTip) -> None:
        return

    def load(self, rows: Any, batch: Tip) -> LoadResult:
        epoch = batch.batch
        self._crash("before")
        replayed = epoch in self.loaded
        if not replayed:
            self.loaded[epoch] = rows.to_pylist()
        self._crash("after")
        return LoadResult(rows.num_rows, replayed)

    def _crash(self, when: str) -> None:
        if self.crash == when:
            self.crash = ""
            raise RuntimeError(f"injected {when} the load")

    def finish(self) -> int:
        return sum(len(rows) for rows in self.loaded.values())

    def close(self) -> None:
        return

    @property
    def all(self) -> list[Row]:
        return [row for epoch in sorted(self.loaded) for row in self.loaded[epoch]]

    def folded(self, *key: str) -> list[Row]:
        found: dict[tuple[Any, ...], Row] = {}
        for row in self.all:
            at = tuple(row[name] for name in key)
            found.pop(at, None)
            if not row.get("__deleted", False):
                found[at] = {name: value for name, value in row.items() if name != "__deleted"}
        return [found[at] for at in sorted(found)]


@dataclass
class Bench:
    """Runs queries of a project over changes of a database."""

    spark: SparkSession
    database: Database
    folder: Path
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept)
    project: LoadedProject | None = None
    job: str = f"test.{uuid.uuid4().hex}"

    def compile(self, sql: str) -> LoadedProject:
        text = (
            f"CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{self.database.url}', "
            "'postgres.username' = 'postgres', 'postgres.password' = '${PGPASSWORD}', 'tls.disabled' = TRUE);\n"
            "CREATE STORE m WITH ('type' = MEMORY);\n" + sql
        )
        state = self.folder / ".ds"
        settings = Settings(
            root=self.folder, sql=self.folder, state=state, store="m", engine=EngineSettings(cores=2), spark={}
        )
        self.project = compile_texts([("test.sql", text)], settings)
        assert not self.project.errors, "\n".join(problem.text() for problem in self.project.errors)
        return self.project

    def resolve(self, value: PropertyValue) -> str:
        return resolve_value(value, {"PGPASSWORD": self.database.password}, "test")

    def read_spec(self, name: str, scan: Scan) -> ReadSpec:
        assert self.project is not None
        store = self.project.catalog.store(scan.relation.store)
        options = scan.reading
        spec = KINDS[store.kind].read_spec(store, scan.relation, options, None)
        assert spec.rows is not None
        own: Mapping[str, PropertyValue] = {
            spec.rows.owner_option: PropertyValue(f"{self.job}.{name}/{scan.source_name}"),
            spec.rows.state_option: PropertyValue(str(self.folder / ".ds" / "snapshots")),
        }
        return replace(spec, options={**spec.options, **own})

    def start(self, name: str, trigger: Any = "continuous", version: int = 1) -> StreamingQuery:
        assert self.project is not None
        query = self.project.queries[name]
        store = self.project.catalog.store(query.sink.store)
        write = KINDS[store.kind].write_spec(store, query.sink, query.refresh)
        prepared = prepare(
            self.spark,
            query,
            reads={scan.source_name: self.read_spec(name, scan) for scan in query.scans},
            writes={query.name: write},
            identity=SinkIdentity(f"{self.job}.{name}", version),
            resolve=self.resolve,
            job_name=f"{name}_{uuid.uuid4().hex[:8]}",
            loaders={query.name: self.kept} if store.kind == "MEMORY" else {},
        )
        started = face.start(prepared, str(self.folder / "checkpoints" / name / f"v{version}"), trigger)
        self.running.append((prepared, started))
        return started

    def settle(self, query: StreamingQuery) -> None:
        """Process what exists; a look that found nothing may be remembered for a moment, hence the second one."""
        query.processAllAvailable()

    def until_rows(self, query: StreamingQuery, count: int) -> None:
        until(lambda: query.exception() or len(self.kept.all) >= count, f"{count} rows")
        assert query.exception() is None, query.exception()

    def until_equal(self, query: StreamingQuery, table: str) -> None:
        """Until what was loaded, folded by key, is what the table holds."""
        wanted = self.database.rows(table)
        until(lambda: query.exception() or self.kept.folded("id") == wanted, f"a copy of {table}")
        assert query.exception() is None, query.exception()

    def fault(self, query: StreamingQuery) -> Any:
        """The condition a query ends with."""
        prepared = next(p for p, q in self.running if q is query)
        until(lambda: not query.isActive, "the query's end")
        return face.failure(prepared, query)

    def stop(self) -> None:
        for prepared, query in self.running:
            query.stop()
            face.close(prepared)
        self.running.clear()

    def slots(self) -> list[str]:
        """Those that outlive their sessions."""
        wanted = "SELECT slot_name FROM pg_replication_slots WHERE NOT temporary ORDER BY 1"
        return [name for (name,) in self.database.sql(wanted)]


@pytest.fixture
def bench(spark: SparkSession, database: Database, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(spark, database, tmp_path)
    yield made
    made.stop()


@pytest.fixture(name="until", scope="session")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture
def open_reader(database: Any, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(columns: StructType, key: str = "", tables: str = "s.t", **more: str) -> Reader:
        options = {
            "connector": "ds_dagster.stores.postgres.connection:PostgresAddress",
            "store": "pg",
            "url": database.url,
            "username": "postgres",
            "password": database.password,
            "sslmode": "disable",
            "tables": tables,
            "slot": "reader",
            "key": key,
            "columns": columns.json(),
            "state": str(tmp_path / "state"),
            **more,
        }
        reader = Reader(CdcOptions.parse(options))
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.reader.stop()
