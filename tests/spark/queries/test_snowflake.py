"""CREATE TABLE … AS from a stream through Spark into the stand-in for Snowflake: what the table holds after restarts,
crashes and refreshes is what the SELECT says."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ds_dagster.catalog.io_spec import LoadResult, SinkIdentity
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import prepare
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.kind import Snowflake
from tests import snowflake_server
from tests.snowflake_server import DATABASE

pytestmark = pytest.mark.servers
EVENTS = "CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');"
COUNTS = "AS SELECT k, COUNT(*) AS n FROM events GROUP BY k;"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeAddress]:
    with snowflake_server.running(tmp_path_factory.mktemp("snowflake")) as found:
        yield found


@pytest.fixture
def warehouse(bench: Any, address: SnowflakeAddress) -> Iterator[Warehouse]:
    with snowflake_server.sql(address) as run:
        made = Warehouse(bench, address, run)
        yield made
        bench.stop()
        run(f"DROP SCHEMA {DATABASE}.{made.schema} CASCADE")


class Warehouse:
    """Runs CREATE TABLE … AS of a project into a schema of its own."""

    def __init__(self, bench: Any, address: SnowflakeAddress, run: Any) -> None:
        self.bench, self.address, self.run = bench, address, run
        self.schema = f"S_{uuid.uuid4().hex[:8].upper()}"
        run(f"CREATE SCHEMA {DATABASE}.{self.schema}")
        run(f"USE SCHEMA {DATABASE}.{self.schema}")

    def compile(self, source: str, select: str, **more: str) -> None:
        """A project with the table ``loaded``."""
        written = {"store": "sf", "snowflake.db.name": DATABASE, "snowflake.schema.name": self.schema, **more}
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in written.items())
        store = (
            f"CREATE STORE sf WITH ('type' = SNOWFLAKE, 'uris' = '{self.address.url}', 'tls.disabled' = TRUE, "
            f"'snowflake.account_id' = '{self.address.account_id}', 'snowflake.username' = 'local', "
            "'snowflake.password' = '${SF_PASSWORD:-local}', 'snowflake.warehouse_name' = 'FAKESNOW_WAREHOUSE');"
        )
        self.bench.compile(f"{source}\n{store}\nCREATE TABLE loaded WITH ({properties}) {select}")

    def load(self, version: int = 1, *, crash: bool = False) -> int:
        """One finite run, as a Dagster step asks for it; rows it loaded. ``crash``: after the first batch is in the
        warehouse and before Spark knows."""
        query = self.bench.project.queries["loaded"]
        reads, _ = self.bench.specs(query, {})
        prepared = prepare(
            self.bench.spark,
            query,
            reads=reads,
            writes={
                query.name: Snowflake().write_spec(self.bench.project.catalog.store("sf"), query.sink, query.refresh)
            },
            identity=SinkIdentity("test/loaded", version),
            resolve=lambda value: resolve(value, {}, "store sf"),
            job_name=f"loaded_{uuid.uuid4().hex[:8]}",
            clock="manual",
            provider=self.bench.provide(self.bench.spark),
        )
        loader: Any
        (loader,) = prepared.loaders
        if crash:
            loader.load = _crashing(loader.load)
        running = face.start(prepared, str(self.bench.folder / f"checkpoint-{version}"), "available_now")
        self.bench.running.append((prepared, running))
        try:
            running.awaitTermination(120)
        except Exception:
            if not crash:
                raise
        rows = 0 if crash else int(loader.finish())
        self.bench.stop()
        return rows

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.run("SELECT K, N FROM LOADED"))


def _crashing(load: Any) -> Any:
    def crashing(rows: Any, epoch: int) -> LoadResult:
        load(rows, epoch)
        raise RuntimeError("injected after the load")

    return crashing


def test_an_append_goes_on_where_it_was(warehouse: Warehouse) -> None:
    warehouse.compile(EVENTS, "AS SELECT k, n FROM events;")
    warehouse.bench.send("events", {"k": "a", "n": 1}, {"k": "a", "n": 1})
    assert warehouse.load() == 2
    warehouse.bench.send("events", {"k": "b", "n": None})
    assert warehouse.load() == 1
    assert warehouse.run("SELECT K, N FROM LOADED ORDER BY K") == [("a", 1), ("a", 1), ("b", None)]


def test_an_aggregate_replaces_rows_by_key(warehouse: Warehouse) -> None:
    warehouse.compile(EVENTS, COUNTS)
    warehouse.bench.send("events", {"k": "a"}, {"k": "b"}, {"k": "a"})
    assert warehouse.load() == 2
    warehouse.bench.send("events", {"k": "a"}, {"k": "c"})
    assert warehouse.load() == 2
    assert warehouse.rows() == [("a", 3), ("b", 1), ("c", 1)]


def test_a_crash_behind_the_load_doubles_nothing(warehouse: Warehouse) -> None:
    warehouse.compile(EVENTS, "AS SELECT k, n FROM events;")
    warehouse.bench.send("events", {"k": "a", "n": 1}, {"k": "b", "n": 2})
    warehouse.load(crash=True)
    assert warehouse.rows() == [("a", 1), ("b", 2)], "the batch is in the warehouse"
    warehouse.bench.send("events", {"k": "c", "n": 3})
    assert warehouse.load() == 3, "the batch that is repeated belongs to the run"
    assert warehouse.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_a_full_refresh_replaces_everything(warehouse: Warehouse) -> None:
    warehouse.compile(EVENTS, COUNTS, **{"refresh.mode": "full"})
    warehouse.bench.send("events", {"k": "a"}, {"k": "b"})
    assert warehouse.load(version=1) == 2
    warehouse.run("DELETE FROM LOADED")
    warehouse.run("INSERT INTO LOADED SELECT 'by hand', 1")
    assert warehouse.load(version=2) == 2
    assert warehouse.rows() == [("a", 1), ("b", 1)]


def test_deletes_of_a_changelog_arrive(warehouse: Warehouse) -> None:
    source = (
        "CREATE CHANGELOG users (k VARCHAR, n BIGINT, PRIMARY KEY(k)) "
        "WITH ('topic' = 'users', 'value.format' = 'json');"
    )
    warehouse.compile(source, "AS SELECT k, n FROM users;")
    users = warehouse.bench.topic("users")
    users.send_all([({"k": "a"}, {"k": "a", "n": 1}, 0, "0"), ({"k": "b"}, {"k": "b", "n": 1}, 0, "0")])
    warehouse.load()
    users.send_all([({"k": "a"}, {"k": "a", "n": 2}, 0, "0"), ({"k": "b"}, None, 0, "0")])
    warehouse.load()
    assert warehouse.rows() == [("a", 2)]


def test_every_type_from_json_to_the_table(warehouse: Warehouse) -> None:
    source = """
    CREATE STREAM events (b BOOLEAN, t TINYINT, s SMALLINT, i INTEGER, n BIGINT, f FLOAT, x DOUBLE, m DECIMAL(12,2),
      v VARCHAR, d DATE, clock TIME, ts TIMESTAMP(6), tz TIMESTAMP_LTZ(6), a ARRAY<INTEGER>, st STRUCT<city VARCHAR>,
      mp MAP<VARCHAR, BIGINT>, "mixedCase" VARCHAR) WITH ('topic' = 'events', 'value.format' = 'json');
    """
    warehouse.compile(source, "AS SELECT * FROM events;")
    record = {
        "b": True, "t": 7, "s": 300, "i": 70000, "n": 2**62, "f": 1.5, "x": 2.25, "m": 1234567890.25, "v": "ä€'\\",
        "d": "2024-02-29", "clock": "12:00:01.000007", "ts": "2024-02-29 12:00:00.000007",
        "tz": "2024-02-29 12:00:00.000007Z", "a": [1, None], "st": {"city": "Ulm"}, "mp": {"k": 1}, "mixedCase": "kept",
    }  # fmt: skip
    warehouse.bench.send("events", record)
    assert warehouse.load() == 1
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=datetime.timezone.utc)
    found = warehouse.run('SELECT B, T, S, I, N, F, X, M, V, D, CLOCK, TS, TZ, "mixedCase" FROM LOADED')
    assert found == [
        (True, 7, 300, 70000, 2**62, 1.5, 2.25, decimal.Decimal("1234567890.25"), "ä€'\\", moment.date(),
         datetime.time(12, 0, 1, 7), moment.replace(tzinfo=None), moment, "kept")
    ]  # fmt: skip
    ((a, st, mp),) = warehouse.run("SELECT A, ST, MP FROM LOADED")
    assert [json.loads(text) for text in (a, st, mp)] == [[1, None], {"city": "Ulm"}, {"k": 1}]


def test_the_password_stays_a_reference_until_it_connects(warehouse: Warehouse) -> None:
    warehouse.compile(EVENTS, "AS SELECT k, n FROM events;")
    query = warehouse.bench.project.queries["loaded"]
    spec = Snowflake().write_spec(warehouse.bench.project.catalog.store("sf"), query.sink, query.refresh)
    assert isinstance(spec.options["password"], PropertyValue)
    assert spec.options["password"].is_reference and "local" not in repr(spec.options["password"])
