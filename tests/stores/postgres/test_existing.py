"""Tables that others made in Postgres: which ones take our rows, what a full refresh keeps, who is in the way."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    INTEGER,
    SMALLINT,
    TIMESTAMP_LTZ,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructField,
    StructType,
)
from ds_dagster.datatypes import decimal as decimal_type
from ds_dagster.errors import DsError
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.kind import Postgres
from ds_dagster.stores.postgres.loader import PostgresLoader
from ds_dagster.stores.postgres.shapes import ServerColumn, assignment
from tests.driven import Driven

FLOAT = Scalar("FLOAT")
TIME = Scalar("TIME")
PLACE = StructType((StructField("city", VARCHAR),))


def column(name: str, type_: DataType, nullable: bool = True) -> TableColumn:
    native = Postgres().native_type(type_)
    return TableColumn(name, type_, native or "jsonb", nullable, native is None)


CAN: tuple[tuple[DataType, str, str | None], ...] = (
    (INTEGER, "bigint", ""), (INTEGER, "numeric(10,0)", ""), (INTEGER, "numeric(9,0)", None), (BIGINT, "integer", None),
    (SMALLINT, "real", ""), (INTEGER, "real", None), (FLOAT, "double precision", ""), (BOOLEAN, "integer", None),
    (decimal_type(10, 2), "numeric", ""), (decimal_type(10, 2), "numeric(12,3)", ""),
    (decimal_type(10, 2), "numeric(10,3)", None), (decimal_type(10, 2), "numeric(10,1)", None),
    (VARCHAR, "character varying(5)", ""), (Scalar("VARCHAR", length=9), "character varying(5)", None),
    (VARCHAR, "uuid", "uuid"), (VARCHAR, "jsonb", "jsonb"), (VARCHAR, "enum", "mood"), (VARCHAR, "integer", None),
    (ArrayType(VARCHAR), "uuid[]", "uuid[]"), (ArrayType(VARCHAR), "uuid", None), (ArrayType(INTEGER), "bigint[]", ""),
    (PLACE, "jsonb", "jsonb"), (PLACE, "json", "json"), (PLACE, "text", ""), (PLACE, "integer", None),
    (TIMESTAMP_LTZ, "timestamp(3) with time zone", None), (TIMESTAMP_LTZ, "timestamp without time zone", None),
    (Scalar("TIMESTAMP_LTZ", precision=3), "timestamp(3) with time zone", ""), (DATE, "date", ""),
    (VARBINARY, "bytea", ""), (VARBINARY, "text", None),
)  # fmt: skip


@pytest.mark.parametrize(("type_", "held", "expected"), CAN, ids=[f"{t}->{h}" for t, h, _ in CAN])
def test_which_columns_hold_which_values(type_: DataType, held: str, expected: str | None) -> None:
    bare = "mood" if held == "enum" else held
    assert assignment(column("c", type_), ServerColumn(held, bare, held, False)) == expected


@pytest.fixture
def address(postgres_settings: Mapping[str, str]) -> PostgresAddress:
    return PostgresAddress.of("warehouse", postgres_settings)


@pytest.fixture
def cursor(postgres_cursor: Any) -> Any:
    return postgres_cursor


@pytest.fixture
def schema(postgres_schema: str) -> str:
    return postgres_schema


def target(
    schema: str, columns: Mapping[str, DataType], mode: str = "append", refresh: str = "incremental", table: str = "t"
) -> TableTarget:
    """The first column is the key of an upsert."""
    key = next(iter(columns))
    made = tuple(column(name, type_, name != key) for name, type_ in columns.items())
    return TableTarget((schema, table), made, (key,) if mode == "upsert" else (), mode, refresh)  # type: ignore[arg-type]


def load(
    address: PostgresAddress, to: TableTarget, *batches: Mapping[str, Any], version: int = 1, shared: bool = False,
    job: str = "j",
) -> int:  # fmt: skip
    loader = Driven(PostgresLoader(address, to, SinkIdentity(job, version), shared=shared))
    try:
        loader.prepare()
        for epoch, batch in enumerate(batches):
            loader.load(pyarrow.table(dict(batch)), epoch)
        return loader.finish()
    finally:
        loader.close()


def refused(step: Callable[[], Any]) -> DsError:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value


COUNTS = {"url": VARCHAR, "n": BIGINT}


@pytest.mark.servers
def test_a_wider_table_of_a_user_takes_every_value(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE TYPE {schema}.mood AS ENUM ('good', 'bad')")
    cursor.execute(f"CREATE DOMAIN {schema}.amount AS numeric(14,2) CHECK (VALUE >= 0)")
    cursor.execute(
        f"CREATE TABLE {schema}.t (more int DEFAULT 7, who uuid PRIMARY KEY, mood {schema}.mood, "
        f"price {schema}.amount, doc jsonb, place json, ids uuid[], label varchar(5), seen time, n numeric, "
        "twice numeric GENERATED ALWAYS AS (n * 2) STORED, line bigint GENERATED ALWAYS AS IDENTITY)"
    )
    who = str(uuid.uuid4())
    columns = {
        "who": VARCHAR, "mood": VARCHAR, "price": decimal_type(10, 2), "doc": VARCHAR, "place": PLACE,
        "ids": ArrayType(VARCHAR), "label": VARCHAR, "seen": TIME, "n": INTEGER,
    }  # fmt: skip
    row = {
        "who": [who], "mood": ["good"], "price": pyarrow.array(["1.50"]).cast(pyarrow.decimal128(10, 2)),
        "doc": ['{"a": 1}'], "place": ['{"city": "Oslo"}'], "ids": pyarrow.array([[who, None]]), "label": ["short"],
        "seen": pyarrow.array([3_600_000_000], pyarrow.time64("us")), "n": pyarrow.array([4], pyarrow.int32()),
    }  # fmt: skip
    for mode, version in (("append", 1), ("upsert", 2)):
        load(address, target(schema, columns, mode), row, version=version)
        cursor.execute(
            f"SELECT more, who::text, mood::text, price::text, doc->>'a', place->>'city', ids::text, label, "
            f"seen::text, n::text, twice::text, line FROM {schema}.t"
        )
        found = cursor.fetchall()
        ids = f"{{{who},NULL}}"
        assert found == [(7, who, "good", "1.50", "1", "Oslo", ids, "short", "01:00:00", "4", "8", version)]
    late = {**row, "label": ["too long"]}
    assert refused(lambda: load(address, target(schema, columns), late, job="k", shared=True)).condition == (
        "TARGET_REJECTS_ROWS"
    )
    wrong = {**row, "mood": ["ugly"], "who": [str(uuid.uuid4())]}
    problem = refused(lambda: load(address, target(schema, columns), wrong, job="l", shared=True))
    assert problem.condition == "TARGET_REJECTS_ROWS"


@pytest.mark.servers
@pytest.mark.parametrize(
    ("ddl", "shared", "told"),
    [
        ("url text, n bigint, at date DEFAULT now()", False, ""),
        ("n bigint, id int GENERATED BY DEFAULT AS IDENTITY, url text", False, ""),
        ("url text, n bigint, at date", False, "at date is too many"),
        ("url text, n bigint, at date", True, ""),
        ("url text, n bigint, at date NOT NULL", True, "at date is too many"),
        ("url text, n bigint GENERATED ALWAYS AS (1) STORED", True, "n is GENERATED ALWAYS"),
        ("url text, n bigint GENERATED ALWAYS AS IDENTITY", True, "n is GENERATED ALWAYS"),
        ("url integer, m bigint", False, "url is integer, not text; n bigint is missing; m bigint is too many"),
    ],
)
def test_columns_the_query_does_not_have(
    address: PostgresAddress, schema: str, cursor: Any, ddl: str, shared: bool, told: str
) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t ({ddl})")
    batch = {"url": ["./a"], "n": [1]}
    if told:
        problem = refused(lambda: load(address, target(schema, COUNTS), batch, shared=shared))
        assert problem.condition == "TARGET_DIFFERS"
        assert told in problem.message
        return
    load(address, target(schema, COUNTS), batch, shared=shared)
    cursor.execute(f"SELECT url, n FROM {schema}.t")
    assert cursor.fetchall() == [("./a", 1)]


@pytest.mark.servers
@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("url text, n bigint, UNIQUE (url) DEFERRABLE", "no unique key (url)"),
        ("url text, n bigint, UNIQUE (url, n)", "no unique key (url)"),
        ("url text, n bigint, UNIQUE (url) INCLUDE (n)", "takes any number of rows with NULL"),
        ("url text, n bigint, UNIQUE NULLS NOT DISTINCT (url)", ""),
        ("url text NOT NULL, n bigint, UNIQUE (url) INCLUDE (n)", ""),
    ],
)
def test_keys_an_upsert_can_rely_on(address: PostgresAddress, schema: str, cursor: Any, ddl: str, told: str) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t ({ddl})")
    made = target(schema, COUNTS, "upsert")
    to = replace(made, columns=(replace(made.columns[0], nullable=True), made.columns[1]))
    if told:
        assert told in refused(lambda: load(address, to)).message
        return
    batches = [{"url": ["./a"], "n": [1], "__deleted": [False]}, {"url": ["./a"], "n": [2], "__deleted": [False]}]
    load(address, to, *batches)
    cursor.execute(f"SELECT url, n FROM {schema}.t")
    assert cursor.fetchall() == [("./a", 2)]


@pytest.mark.servers
def test_a_partitioned_table_stays_partitioned(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t (n bigint PRIMARY KEY, url text) PARTITION BY RANGE (n)")
    cursor.execute(f"CREATE TABLE {schema}.t_low PARTITION OF {schema}.t FOR VALUES FROM (0) TO (10)")
    columns = {"n": BIGINT, "url": VARCHAR}
    batch = {"n": [1, 2], "url": ["a", "b"]}
    load(address, target(schema, columns), batch, job="rows")
    cursor.execute(f"DELETE FROM {schema}.ds_ledger")
    upserted = {"n": [2, 3], "url": ["B", None], "__deleted": [False, False]}
    load(address, target(schema, columns, "upsert"), upserted, {"n": [1], "url": [None], "__deleted": [True]})
    cursor.execute(f"SELECT n, url FROM {schema}.t_low ORDER BY n")
    assert cursor.fetchall() == [(2, "B"), (3, None)]
    beyond = {"n": [99], "url": ["z"]}
    problem = refused(lambda: load(address, target(schema, columns), beyond, job="more", shared=True))
    assert problem.condition == "TARGET_REJECTS_ROWS"
    assert "no partition" in problem.message
    for version in (1, 2):
        load(address, target(schema, columns, refresh="full"), {"n": [5], "url": ["x"]}, job="full", version=version)
        cursor.execute(f"SELECT n, tableoid::regclass::text FROM {schema}.t")
        assert cursor.fetchall() == [(5, f"{schema}.t_low")]


KEPT = (
    "CREATE INDEX ON {t} (n)", "GRANT SELECT ON {t} TO PUBLIC", "ALTER TABLE {t} ALTER n SET DEFAULT 1",
    "ALTER TABLE {t} ADD CHECK (n >= 0)", "COMMENT ON COLUMN {t}.n IS 'how often'",
    "ALTER TABLE {t} SET (fillfactor = 70)",
    "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "CREATE STATISTICS {t}_s ON url, n FROM {t}",
    "CREATE RULE r AS ON DELETE TO {t} DO ALSO NOTHING", "ALTER TABLE {t} REPLICA IDENTITY FULL",
    "ALTER TABLE {t} ALTER n TYPE numeric", "CREATE MATERIALIZED VIEW {t}_m AS SELECT n FROM {t}",
)  # fmt: skip


@pytest.mark.servers
@pytest.mark.parametrize("statement", KEPT)
def test_a_full_refresh_keeps_what_hangs_on_the_table(
    address: PostgresAddress, schema: str, cursor: Any, statement: str
) -> None:
    to = target(schema, COUNTS, refresh="full")
    load(address, to, {"url": ["./old"], "n": [1]})
    cursor.execute(statement.format(t=f"{schema}.t"))
    cursor.execute(f"SELECT '{schema}.t'::regclass::oid")
    before = cursor.fetchone()
    load(address, to, {"url": ["./a"], "n": [2]}, version=2)
    cursor.execute(f"SELECT url, n::int FROM {schema}.t")
    assert cursor.fetchall() == [("./a", 2)]
    cursor.execute(f"SELECT '{schema}.t'::regclass::oid")
    assert cursor.fetchone() == before


@pytest.mark.servers
def test_a_table_others_refer_to_is_refreshed_by_key(address: PostgresAddress, schema: str, cursor: Any) -> None:
    to = target(schema, COUNTS, "upsert", refresh="full")
    load(address, to, {"url": ["./a", "./gone"], "n": [1, 1]})
    cursor.execute(f"CREATE TABLE {schema}.notes (url text REFERENCES {schema}.t ON DELETE CASCADE)")
    cursor.execute(f"INSERT INTO {schema}.notes VALUES ('./a'), ('./gone')")
    load(address, to, {"url": ["./a", "./b"], "n": [2, 2]}, version=2)
    cursor.execute(f"SELECT url, n FROM {schema}.t ORDER BY url")
    assert cursor.fetchall() == [("./a", 2), ("./b", 2)]
    cursor.execute(f"SELECT url FROM {schema}.notes")
    assert cursor.fetchall() == [("./a",)], "rows that stay keep what refers to them"
    load(address, target(schema, COUNTS, "upsert"), {"url": ["./a"], "n": [3]}, job="other", shared=True)
    restarted = target(schema, COUNTS, "upsert")
    assert refused(lambda: load(address, restarted, version=3)).condition == "TARGET_REFERENCED"
    assert refused(lambda: load(address, target(schema, COUNTS, refresh="full"), version=3)).condition == (
        "TARGET_REFERENCED"
    )


@pytest.mark.servers
def test_a_query_that_changed_gives_a_full_refresh_another_shape(
    address: PostgresAddress, schema: str, cursor: Any
) -> None:
    load(address, target(schema, COUNTS, refresh="full"), {"url": ["./a"], "n": [1]})
    wider = {**COUNTS, "tags": MapType(VARCHAR, INTEGER)}
    load(address, target(schema, wider, refresh="full"), {"url": ["./a"], "n": [1], "tags": ['{"x": 1}']}, version=2)
    cursor.execute(f"SELECT tags->>'x' FROM {schema}.t")
    assert cursor.fetchall() == [("1",)]
    cursor.execute(f"CREATE VIEW {schema}.v AS SELECT * FROM {schema}.t")
    problem = refused(lambda: load(address, target(schema, COUNTS, refresh="full"), version=3))
    assert (problem.condition, "tags jsonb is too many" in problem.message) == ("TARGET_DIFFERS", True)


@pytest.mark.servers
def test_a_table_that_was_dropped_or_changed_meanwhile(address: PostgresAddress, schema: str, cursor: Any) -> None:
    loader = Driven(PostgresLoader(address, target(schema, COUNTS), SinkIdentity("j", 1)))
    loader.prepare()
    batch = pyarrow.table({"url": ["./a"], "n": [1]})
    loader.load(batch, 0)
    cursor.execute(f"ALTER TABLE {schema}.t DROP COLUMN n")
    assert refused(lambda: loader.load(batch, 1)).condition == "TARGET_CHANGED"
    assert refused(loader.prepare).condition == "TARGET_DIFFERS"
    cursor.execute(f"DROP TABLE {schema}.t")
    assert refused(lambda: loader.load(batch, 1)).condition == "TARGET_CHANGED"
    assert refused(loader.prepare).condition == "TARGET_GONE"
    loader.close()
    load(address, target(schema, COUNTS), {"url": ["./a"], "n": [1]}, version=2)
    cursor.execute(f"SELECT count(*) FROM {schema}.t")
    assert cursor.fetchone() == (1,), "a new version makes it anew"


# --- other sessions ---------------------------------------------------------------------------------------------------


@pytest.fixture
def other(address: PostgresAddress) -> Any:
    connection = address.control()
    yield connection
    connection.close()


def waiting_for_a_lock(cursor: Any) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        if cursor.fetchone()[0]:
            return
    raise AssertionError("nobody waits")


@pytest.mark.servers
def test_a_serialization_failure_is_repeated(address: PostgresAddress, schema: str, cursor: Any, other: Any) -> None:
    """The role reads a snapshot; another session changes the row in between."""
    role = f"r_{uuid.uuid4().hex[:8]}"
    cursor.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'secret-1'")
    cursor.execute(f"ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'")
    strict = replace(address, username=role, password="secret-1")
    try:
        loader = Driven(PostgresLoader(strict, target(schema, COUNTS, "upsert"), SinkIdentity("j", 1)))
        loader.prepare()
        first = pyarrow.table({"url": ["./a"], "n": [1], "__deleted": [False]})
        loader.load(first, 0)
        other.cursor().execute(f"UPDATE {schema}.t SET n = 50")
        second = pyarrow.table({"url": ["./a"], "n": [2], "__deleted": [False]})
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(loader.load(second, 1)))
        thread.start()
        waiting_for_a_lock(cursor)
        other.commit()
        thread.join(30)
        assert [(result.rows, result.replayed) for result in results] == [(1, False)]
        loader.close()
        cursor.execute(f"SELECT url, n FROM {schema}.t")
        assert cursor.fetchall() == [("./a", 2)]
    finally:
        cursor.execute(f"DROP OWNED BY {role} CASCADE")
        cursor.execute(f"DROP ROLE {role}")


@pytest.mark.servers
def test_a_deadlock_is_repeated(address: PostgresAddress, schema: str, cursor: Any, other: Any) -> None:
    loader = Driven(PostgresLoader(address, target(schema, COUNTS, "upsert"), SinkIdentity("j", 1)))
    loader.prepare()
    loader.load(pyarrow.table({"url": ["./a", "./b"], "n": [1, 1], "__deleted": [False, False]}), 0)
    held = other.cursor()
    held.execute("SET deadlock_timeout = '60s'")
    other.commit()
    held.execute(f"UPDATE {schema}.t SET n = 50 WHERE url = './b'")
    results: list[Any] = []
    batch = pyarrow.table({"url": ["./a", "./b"], "n": [2, 2], "__deleted": [False, False]})
    thread = threading.Thread(target=lambda: results.append(loader.load(batch, 1)))
    thread.start()
    waiting_for_a_lock(cursor)
    held.execute(f"UPDATE {schema}.t SET n = 50 WHERE url = './a'")
    other.commit()
    thread.join(30)
    assert [(result.rows, result.replayed) for result in results] == [(2, False)]
    loader.close()
    cursor.execute(f"SELECT url, n FROM {schema}.t ORDER BY url")
    assert cursor.fetchall() == [("./a", 2), ("./b", 2)]


@pytest.mark.servers
def test_a_lock_that_is_not_given_is_the_servers_fault(
    address: PostgresAddress, schema: str, cursor: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ds_dagster.stores.postgres.connection.LOCK_MILLIS", 100)
    monkeypatch.setattr("ds_dagster.stores.postgres.loader.PUBLISH_LOCK_MILLIS", 100)
    monkeypatch.setattr("ds_dagster.stores.table_sink.PUBLISH_ATTEMPTS", 2)
    monkeypatch.setattr("ds_dagster.stores.table_sink.PUBLISH_PAUSE_SECONDS", 0.1)
    to = target(schema, COUNTS, refresh="full")
    load(address, to, {"url": ["./a"], "n": [1]})
    other.cursor().execute(f"LOCK TABLE {schema}.t IN ACCESS SHARE MODE")
    loader = Driven(PostgresLoader(address, to, SinkIdentity("j", 2)))
    loader.prepare()
    loader.load(pyarrow.table({"url": ["./b"], "n": [2]}), 0)
    problem = refused(loader.finish)
    assert (problem.condition, problem.fault.domain, problem.fault.hint) == ("TARGET_LOCKED", "external", "back_off")
    cursor.execute(f"SELECT url FROM {schema}.t")
    assert cursor.fetchall() == [("./a",)], "readers go on with the old rows"
    other.rollback()
    assert loader.finish() == 1
    loader.close()
    cursor.execute(f"SELECT url FROM {schema}.t")
    assert cursor.fetchall() == [("./b",)]
