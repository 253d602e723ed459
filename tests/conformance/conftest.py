"""Every table sink in one shape: open a loader for an identity, read back what the store holds."""

from __future__ import annotations

import datetime
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextlib import closing as closed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from sqlglot import exp

from ds_dagster.catalog.io_spec import BatchLoader, SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip
from ds_dagster.datatypes import BIGINT, TIMESTAMP_LTZ, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.files.address import FilesAddress, FileStore
from ds_dagster.jars import driver_jars
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.names import QualifiedName
from ds_dagster.settings import Settings
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.session import build_session
from ds_dagster.stores.databricks.connection import WorkspaceAddress, table_of
from ds_dagster.stores.databricks.loader import DatabricksLoader
from ds_dagster.stores.databricks.warehouse import WarehouseLoader
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.memory import loader as memory_loader
from ds_dagster.stores.memory.loader import MemoryLoader
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.loader import PostgresLoader
from ds_dagster.stores.s3.loader import FilesLoader, WrittenFormat
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.loader import SnowflakeLoader
from ds_dagster.stores.sqlite.loader import SqliteLoader
from ds_dagster.stores.sqlite.reader import open_views
from ds_dagster.stores.sqlite.views import file_name
from ds_dagster.testing.short_lived import session_engine, session_properties
from tests import snowflake_server
from tests.driven import Driven
from tests.fixtures.lake import log_blocked, read_lake, s3_bucket
from tests.fixtures.warehouse import Workspace, workspace

pytest.register_assert_rewrite("tests.stores.kafka.faults")
AT = datetime.datetime(2024, 1, 31, 23, 59, 59, 5, tzinfo=datetime.timezone.utc)
KINDS = (
    "memory",
    "sqlite",
    "delta",
    pytest.param("delta_s3", marks=[pytest.mark.servers, pytest.mark.slow]),  # databricks writes into the same bucket
    pytest.param("databricks", marks=pytest.mark.servers),
    pytest.param("databricks_warehouse", marks=pytest.mark.servers),
    pytest.param(
        "databricks_workspace",
        marks=[
            pytest.mark.servers,
            pytest.mark.skipif("DATABRICKS_TEST_URL" not in os.environ, reason="DATABRICKS_TEST_… name no workspace"),
        ],
    ),
    pytest.param("postgres", marks=pytest.mark.servers),
    pytest.param("snowflake", marks=pytest.mark.servers),
)


def often(*kinds: str) -> list[Any]:
    """Every kind of sink as a parameter, with the marks it has there; all but these run with the long tests."""
    found = [pytest.param(kind) if isinstance(kind, str) else kind for kind in KINDS]
    rare = {kind.values[0]: [] if kind.values[0] in kinds else [pytest.mark.slow] for kind in found}
    return [pytest.param(*kind.values, marks=[*kind.marks, *rare[kind.values[0]]]) for kind in found]


class CrashError(RuntimeError):
    """The driver dies."""


@dataclass(frozen=True)
class Sink:
    """One table of one kind of store."""

    kind: str
    place: tuple[str, ...]
    open_loader: Callable[[TableTarget, SinkIdentity], BatchLoader]
    read: Callable[[], list[dict[str, Any]]]
    blocked: Callable[[], AbstractContextManager[None]] | None = None
    """Where rows and ledger are one commit: lets that commit fail."""
    age: Callable[[int], None] | None = None
    """Where views may stand: makes every row older by so many milliseconds."""
    remove: Callable[[], None] | None = None
    """Takes the target away behind the loader's back."""

    def target(
        self, mode: str = "upsert", refresh: str = "incremental", retention_millis: int = 0, more: bool = False
    ) -> TableTarget:
        """``more``: with a column that the rows of :func:`batch` do not have."""
        native = {
            "sqlite": ("TEXT", "INTEGER", "TEXT"),
            "postgres": ("text", "bigint", "timestamp with time zone"),
            "snowflake": ("VARCHAR", "NUMBER(38,0)", "TIMESTAMP_LTZ(9)"),
            "memory": ("VARCHAR", "BIGINT", "TIMESTAMP_LTZ"),
            **dict.fromkeys(("files", "files_s3"), ("", "", "")),
            "delta": ("string", "bigint", "timestamp"),
            "delta_s3": ("string", "bigint", "timestamp"),
            "databricks": ("string", "bigint", "timestamp"),
            "databricks_warehouse": ("string", "bigint", "timestamp"),
            "databricks_workspace": ("string", "bigint", "timestamp"),
        }[self.kind]
        columns = (
            TableColumn("url", VARCHAR, native[0]),
            TableColumn("visits", BIGINT, native[1]),
            TableColumn("at", TIMESTAMP_LTZ, native[2]),
        )
        columns = (*columns, TableColumn("more", BIGINT, native[1])) if more else columns
        key = ("url",) if mode == "upsert" else ()
        return TableTarget(self.place, columns, key, mode, refresh, retention_millis=retention_millis)  # type: ignore[arg-type]

    def loader(
        self, version: int = 1, job: str = "test/j/q", tip: CheckpointTip | None = None, shared: bool = False, **to: Any
    ) -> Driven:
        loader = Driven(self.open_loader(self.target(**to), SinkIdentity(job, version)))
        getattr(loader.loader, "files", loader.loader).shared = shared
        loader.prepare(tip)
        return loader

    @contextmanager
    def failing_commit(self, loader: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Exception]]:
        """Rows are written, their commit is not; yields what the loader raises."""
        if self.blocked is not None:
            with self.blocked():
                yield DsError
            return
        original = loader._apply

        def crashing(*arguments: Any, **named: Any) -> None:
            original(*arguments, **named)
            raise CrashError

        with monkeypatch.context() as patched:
            patched.setattr(loader.loader, "_apply", crashing)
            yield CrashError

    @property
    def at(self) -> datetime.datetime:
        """Time in every row of :func:`batch`."""
        return AT

    def rows(self) -> list[tuple[Any, Any]]:
        """(url, visits), sorted."""
        return sorted(((row["url"], row["visits"]) for row in self.read()), key=repr)


@pytest.fixture
def batch() -> Callable[..., pyarrow.Table]:
    return make_batch


def make_batch(
    rows: Sequence[tuple[str | None, int | None]],
    deleted: Sequence[str | None] = (),
    mode: str = "upsert",
    more: bool = False,
) -> pyarrow.Table:
    everything = [*rows, *((url, None) for url in deleted)]
    columns: dict[str, Any] = {
        "url": pyarrow.array([url for url, _ in everything], pyarrow.string()),
        "visits": pyarrow.array([visits for _, visits in everything], pyarrow.int64()),
        "at": pyarrow.array([AT] * len(everything), pyarrow.timestamp("us", "UTC")),
    }
    if more:
        columns["more"] = columns["visits"]
    if mode == "upsert":
        columns["__deleted"] = pyarrow.array([False] * len(rows) + [True] * len(deleted), pyarrow.bool_())
    return pyarrow.table(columns)


@pytest.fixture(scope="session")
def servers(local_servers: Callable[..., LocalAddresses]) -> LocalAddresses:
    return local_servers("postgres")


@pytest.fixture(scope="session")
def postgres_settings(servers: LocalAddresses) -> Mapping[str, str]:
    """Resolved options of a Postgres store."""
    password = Path(str(servers.postgres_password_file)).read_text(encoding="utf-8").strip()
    return {
        "url": str(servers.postgres),
        "username": str(servers.postgres_user),
        "password": password,
        "sslmode": "disable",
        "store": "warehouse",
    }


@pytest.fixture
def postgres_address(postgres_settings: Mapping[str, str]) -> PostgresAddress:
    return PostgresAddress.of("warehouse", postgres_settings)


@pytest.fixture(scope="session")
def snowflake_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeAddress]:
    with snowflake_server.running(tmp_path_factory.mktemp("snowflake")) as address:
        yield address


def _memory(tmp_path: Path) -> Iterator[Sink]:
    place = ("m", f"t_{uuid.uuid4().hex[:8]}")

    def age(millis: int) -> None:
        table = memory_loader.TABLES[place]
        table.changed = {key: at - millis for key, at in table.changed.items()}

    def read() -> list[dict[str, Any]]:
        return memory_loader.table_rows(*place)

    def remove() -> None:
        memory_loader.clear("m")

    yield Sink("memory", place, lambda t, i: MemoryLoader(place, t, i), read, age=age, remove=remove)
    memory_loader.clear("m")


def _sqlite(tmp_path: Path) -> Iterator[Sink]:
    name = QualifiedName("db", "public", "visits")

    def read() -> list[dict[str, Any]]:
        connection = open_views(tmp_path, {"main": name})
        found = connection.execute('SELECT url, visits, "at" FROM visits').fetchall()
        connection.close()
        return [dict(zip(("url", "visits", "at"), row, strict=True)) for row in found]

    place = (file_name(name), "visits")

    def age(millis: int) -> None:
        with closed(sqlite3.connect(tmp_path / place[0])) as connection, connection:
            connection.execute("UPDATE visits SET __changed_at = __changed_at - ?", (millis,))

    def remove() -> None:
        for path in tmp_path.glob(f"{place[0]}*"):
            path.unlink()

    yield Sink("sqlite", place, lambda t, i: SqliteLoader(tmp_path / place[0], t, i), read, age=age, remove=remove)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The process's session if it has one, else a new one made as the engine makes it."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    folder = tmp_path_factory.mktemp("spark")
    spark_settings = {
        **session_properties(),
        "spark.sql.streaming.pollingDelay": "20ms",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    settings = Settings(
        root=folder,
        sql=folder,
        state=folder,
        engine=session_engine(),
        spark=spark_settings,
    )
    made = build_session(settings, jars=driver_jars(), app_name="conformance")
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def patient(prepared: PreparedQuery) -> None:
    """Let a query look for new records less often than the session's other ones: each look of a query that waits asks a
    server, which takes a third of a processor with the session's own delay."""
    prepared.session.conf.set("spark.sql.streaming.pollingDelay", "250ms")


@pytest.fixture(params=KINDS)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sink]:
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_address")
        made = _postgres(address)
    elif request.param == "snowflake":
        made = snowflake_sink(request.getfixturevalue("snowflake_address"))
    elif request.param == "delta_s3":
        made = _delta_s3(request.getfixturevalue("s3_settings"))
    elif request.param == "files_s3":
        settings = request.getfixturevalue("s3_settings")
        made = _files("files_s3", {**settings, "store": "lake", "url": f"s3://lake/{uuid.uuid4().hex}"})
    elif request.param == "files":
        made = _files("files", {"store": "lake", "url": (tmp_path / "files").as_uri()})
    elif request.param == "databricks":
        made = _databricks(request.getfixturevalue("dbx"))
    elif request.param == "databricks_warehouse":
        made = _databricks_warehouse(request.getfixturevalue("dbx"))
    else:
        local = {"memory": _memory, "sqlite": _sqlite, "delta": _delta, "databricks_workspace": _databricks_workspace}
        made = local[request.param](tmp_path)
    yield from closing(made)


def closing(made: Iterator[Sink]) -> Iterator[Sink]:
    """The sink; at the end its loaders are closed and what it holds is given back."""
    loaders: list[BatchLoader] = []
    sink = next(made)

    def opened(target: TableTarget, identity: SinkIdentity) -> BatchLoader:
        loaders.append(sink.open_loader(target, identity))
        return loaders[-1]

    yield replace(sink, open_loader=opened)
    for loader in loaders:
        loader.close()
    for _ in made:
        pass


@pytest.fixture(scope="session")
def s3_settings() -> Iterator[Mapping[str, str]]:
    """Resolved options of a Delta store in a bucket."""
    with s3_bucket("lake") as settings:
        yield settings


def _delta(tmp_path: Path) -> Iterator[Sink]:
    address = LakeAddress("lake", (tmp_path / "lake").as_uri())
    place = address.place("shop", "visits")
    yield Sink(
        "delta",
        ("shop", "visits"),
        lambda t, i: DeltaLoader(address, place, t, i),
        lambda: read_lake(address, place),
        lambda: log_blocked(Path(place)),
        remove=lambda: shutil.rmtree(place),
    )


def _delta_s3(settings: Mapping[str, str]) -> Iterator[Sink]:
    address = LakeAddress.of("lake", settings)
    table = f"visits_{uuid.uuid4().hex[:8]}"
    place = address.place(table)
    yield Sink(
        "delta_s3",
        (table,),
        lambda t, i: DeltaLoader(address, place, t, i),
        lambda: read_lake(address, place),
        remove=lambda: address.remove_folder(address.root, table),
    )


def _files(kind: str, settings: Mapping[str, str]) -> Iterator[Sink]:
    """Parquet files in a folder or a bucket, appended to. Not one of the :data:`KINDS`: they hold no table."""
    store = FileStore(FilesAddress.of(settings))

    def read() -> list[dict[str, Any]]:
        places = (store.address.place("visits", found.path) for found in store.listed(store.address.place("visits")))
        contents = (pyarrow.BufferReader(store.read(place)) for place in places)
        return [row for content in contents for row in parquet.read_table(content).to_pylist()]

    yield Sink(kind, ("visits",), lambda t, i: FilesLoader(store, "visits", t, WrittenFormat("parquet"), i), read)


@pytest.fixture(scope="session")
def dbx(s3_settings: Mapping[str, str]) -> Iterator[Workspace]:
    """The double of a workspace."""
    with workspace(s3_settings) as made:
        yield made


def _databricks(made: Workspace) -> Iterator[Sink]:
    """Read back from where the workspace says that the table is."""
    name = ("main", "default", f"visits_{uuid.uuid4().hex[:8]}")
    address = LakeAddress.of("dbx", {**made.settings, "url": f"s3://lake/{'/'.join(name)}"}, "DATABRICKS")

    def read() -> list[dict[str, Any]]:
        place = made.tables.get(".".join(name))
        return read_lake(address, place) if place else []

    def opened(target: TableTarget, identity: SinkIdentity) -> BatchLoader:
        files = DeltaLoader(address, address.root, target, identity)
        return DatabricksLoader(WorkspaceAddress.of("dbx", {**made.settings, "url": made.url}), files)

    def remove() -> None:
        address.remove_folder("s3://lake", "/".join(name))

    yield Sink("databricks", name, opened, read, remove=remove)


def _databricks_warehouse(made: Workspace) -> Iterator[Sink]:
    """Tables the workspace keeps; COPY INTO, MERGE and INSERT OVERWRITE are those of the double."""
    name = ("main", "default", f"visits_{uuid.uuid4().hex[:8]}")
    address = WorkspaceAddress.of("dbx", {**made.settings, "url": made.url})
    yield Sink(
        "databricks_warehouse",
        name,
        lambda t, i: WarehouseLoader(address, t, i),
        lambda: made.managed.rows(".".join(name)),
        remove=lambda: made.managed.drop(table_of(name)),
    )


def _databricks_workspace(tmp_path: Path) -> Iterator[Sink]:
    """A real one, named by environment variables: DATABRICKS_TEST_URL, _TOKEN, _WAREHOUSE, _SCHEMA (catalog.schema),
    _LOCATION (s3://bucket/prefix inside an external location), and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_REGION, AWS_ENDPOINT_URL as far as the machine needs them. Read back by its own warehouse."""
    given = {name: os.environ.get(f"DATABRICKS_TEST_{name}", "") for name in ("URL", "TOKEN", "WAREHOUSE", "SCHEMA")}
    names = ("access_key_id", "secret_access_key", "region", "endpoint_url")
    keys = {name: os.environ.get(f"AWS_{name.upper()}", "") for name in names}
    table = f"visits_{uuid.uuid4().hex[:8]}"
    name = (*given["SCHEMA"].split("."), table)
    place = f"{os.environ['DATABRICKS_TEST_LOCATION']}/{table}"
    files = LakeAddress.of("dbx", {**keys, "url": place}, "DATABRICKS")
    tls_disabled = "true" if given["URL"].startswith("http://") else "false"
    warehouse = WorkspaceAddress(
        "dbx", given["URL"], given["WAREHOUSE"], tls_disabled=tls_disabled, app_token=given["TOKEN"]
    )

    def read() -> list[dict[str, Any]]:
        if warehouse.location(name) is None:
            return []
        columns = ("url", "visits", "at")
        rows = warehouse.rows(exp.select(*map(exp.column, columns)).from_(table_of(name)), "read the table")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def opened(target: TableTarget, identity: SinkIdentity) -> BatchLoader:
        return DatabricksLoader(warehouse, DeltaLoader(files, files.root, target, identity))

    def remove() -> None:
        warehouse.rows(exp.Drop(tables=[table_of(name)], kind="TABLE", exists=True), "drop the table")
        files.remove_folder(f"{os.environ['DATABRICKS_TEST_LOCATION']}", table)

    yield Sink("databricks_workspace", name, opened, read, remove=remove)
    warehouse.rows(exp.Drop(tables=[table_of(name)], kind="TABLE", exists=True), "drop the table")


def _postgres(address: PostgresAddress) -> Iterator[Sink]:
    table = f"visits_{uuid.uuid4().hex[:8]}"
    schema = f"s_{uuid.uuid4().hex[:8]}"
    connection = address.control()
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(f"CREATE SCHEMA {schema}")

    def read() -> list[dict[str, Any]]:
        cursor.execute(f'SELECT url, visits, "at" FROM {schema}.{table}')
        return [dict(zip(("url", "visits", "at"), row, strict=True)) for row in cursor.fetchall()]

    def age(millis: int) -> None:
        cursor.execute(f"UPDATE {schema}.{table} SET __changed_at = __changed_at - {millis} * interval '1 ms'")

    def remove() -> None:
        cursor.execute(f"DROP TABLE {schema}.{table}")

    yield Sink("postgres", (schema, table), lambda t, i: PostgresLoader(address, t, i), read, age=age, remove=remove)
    cursor.execute(f"DROP SCHEMA {schema} CASCADE")
    connection.close()


def snowflake_sink(address: SnowflakeAddress, within: str = snowflake_server.DATABASE) -> Iterator[Sink]:
    place = (within, f"S_{uuid.uuid4().hex[:8].upper()}", f"VISITS_{uuid.uuid4().hex[:8].upper()}")
    database, schema, table = (f'"{part}"' for part in place)
    with snowflake_server.sql(address) as run:
        run(f"CREATE SCHEMA {database}.{schema}")

        def read() -> list[dict[str, Any]]:
            found = run(f'SELECT "URL", "VISITS", "AT" FROM {database}.{schema}.{table}')
            return [dict(zip(("url", "visits", "at"), row, strict=True)) for row in found]

        def remove() -> None:
            run(f"DROP TABLE {database}.{schema}.{table}")

        yield Sink("snowflake", place, lambda t, i: SnowflakeLoader(address, t, i), read, remove=remove)
        run(f"DROP SCHEMA {database}.{schema} CASCADE")
