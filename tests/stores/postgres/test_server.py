"""What only Postgres can get wrong: shapes, types, full refresh under a view, logins."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    Scalar,
    StructField,
    StructType,
)
from ds_dagster.datatypes import (
    decimal as decimal_type,
)
from ds_dagster.errors import DsError
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.stores.postgres.admin import PostgresAdmin
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.entities import PostgresEntities
from ds_dagster.stores.postgres.kind import Postgres
from ds_dagster.stores.postgres.loader import PostgresLoader
from tests.driven import Driven

pytestmark = pytest.mark.servers
UTC = datetime.timezone.utc


@pytest.fixture
def address(postgres_settings: Mapping[str, str]) -> PostgresAddress:
    return PostgresAddress.of("warehouse", postgres_settings)


@pytest.fixture
def cursor(address: PostgresAddress) -> Iterator[Any]:
    connection = address.control()
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.fixture
def schema(cursor: Any) -> Iterator[str]:
    name = f"s_{uuid.uuid4().hex[:8]}"
    cursor.execute(f"CREATE SCHEMA {name}")
    yield name
    cursor.execute(f"DROP SCHEMA {name} CASCADE")


def column(name: str, type_: DataType, nullable: bool = True) -> TableColumn:
    native = Postgres().native_type(type_)
    return TableColumn(name, type_, native or "jsonb", nullable, native is None)


def target(schema: str, table: str = "t", mode: str = "append", refresh: str = "incremental") -> TableTarget:
    columns = (column("url", VARCHAR), column("n", BIGINT))
    return TableTarget((schema, table), columns, ("url",) if mode == "upsert" else (), mode, refresh)  # type: ignore[arg-type]


def rows(*pairs: tuple[str, int]) -> pyarrow.Table:
    urls, counts = [url for url, _ in pairs], [n for _, n in pairs]
    return pyarrow.table({"url": pyarrow.array(urls, pyarrow.string()), "n": pyarrow.array(counts, pyarrow.int64())})


def load(address: PostgresAddress, to: TableTarget, version: int, *batches: pyarrow.Table, job: str = "j") -> int:
    loader = Driven(PostgresLoader(address, to, SinkIdentity(job, version)))
    try:
        loader.prepare()
        for epoch, batch in enumerate(batches):
            loader.load(batch, epoch)
        return loader.finish()
    finally:
        loader.close()


def test_every_type_arrives(address: PostgresAddress, schema: str, cursor: Any) -> None:
    struct = StructType((StructField("city", VARCHAR),))
    columns = (
        column("b", BOOLEAN), column("t", TINYINT), column("s", SMALLINT), column("i", INTEGER), column("n", BIGINT),
        column("m", decimal_type(12, 2)), column("v", Scalar("VARCHAR", length=10)), column("d", DATE),
        column("ts", TIMESTAMP), column("tz", TIMESTAMP_LTZ), column("by", VARBINARY), column("a", ArrayType(VARCHAR)),
        column("ai", ArrayType(INTEGER)), column("st", struct), column('odd "name', VARCHAR),
        column("f", Scalar("FLOAT")),
    )  # fmt: skip
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=UTC).replace(tzinfo=None)
    arrow = pyarrow.table(
        {
            "b": [True],
            "t": pyarrow.array([7], pyarrow.int8()),
            "s": pyarrow.array([300], pyarrow.int16()),
            "i": pyarrow.array([70000], pyarrow.int32()),
            "n": [2**60],
            "m": pyarrow.array([decimal.Decimal("1234567890.25")], pyarrow.decimal128(12, 2)),
            "v": ["ä€'\\"],
            "d": [moment.date()],
            "ts": pyarrow.array([moment], pyarrow.timestamp("us")),
            "tz": pyarrow.array([moment], pyarrow.timestamp("us", "UTC")),
            "by": [b"\x00\xff"],
            "a": pyarrow.array([["x", None]]),
            "ai": pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int32())),
            "st": ['{"city": "Köln"}'],
            'odd "name': ["quoted"],
            "f": pyarrow.array([1.5], pyarrow.float32()),
        }
    )
    for name, chosen in (("staged", columns), ("direct", tuple(c for c in columns if not c.as_json))):
        assert load(address, TableTarget((schema, name), chosen), 1, arrow, job=name) == 1
        cursor.execute(f"SELECT * FROM {schema}.{name}")
        found = dict(zip((d.name for d in cursor.description), cursor.fetchone(), strict=True))
        assert found.pop("st", {"city": "Köln"}) == {"city": "Köln"}
        assert found.pop("by").tobytes() == b"\x00\xff"
        assert found == {
            "b": True, "t": 7, "s": 300, "i": 70000, "n": 2**60, "m": decimal.Decimal("1234567890.25"), "v": "ä€'\\",
            "d": moment.date(), "ts": moment, "tz": moment.replace(tzinfo=UTC), "a": ["x", None], "ai": [1, 2],
            'odd "name': "quoted", "f": 1.5,
        }  # fmt: skip


def test_full_refresh_keeps_a_view_over_the_table(address: PostgresAddress, schema: str, cursor: Any) -> None:
    to = target(schema, refresh="full")
    load(address, to, 1, rows(("./a", 1)))
    cursor.execute(f"CREATE VIEW {schema}.v AS SELECT sum(n) AS total FROM {schema}.t")
    cursor.execute(f"SELECT '{schema}.t'::regclass::oid")
    before = cursor.fetchone()
    assert load(address, to, 2, rows(("./b", 4)), rows(("./c", 3))) == 2
    cursor.execute(f"SELECT total, '{schema}.t'::regclass::oid FROM {schema}.v")
    assert cursor.fetchone() == (7, *before)
    cursor.execute(f"DROP VIEW {schema}.v")
    load(address, to, 3, rows(("./d", 1)))
    cursor.execute(f"SELECT url, '{schema}.t'::regclass::oid FROM {schema}.t")
    found = cursor.fetchone()
    assert found[0] == "./d" and found[1] != before[0], "without a view the new table takes the old one's place"
    cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename LIKE '%%ds_new%%'", (schema,))
    assert cursor.fetchone() == (0,)


def test_publishing_twice_counts_once(address: PostgresAddress, schema: str, cursor: Any) -> None:
    to = target(schema, refresh="full", mode="upsert")
    with_marks = rows(("./a", 1)).append_column("__deleted", pyarrow.array([False]))
    load(address, to, 1, with_marks)
    assert load(address, to, 1) == 1, "the run was published; a restarted step tells the same"
    cursor.execute(f"SELECT count(*) FROM {schema}.t")
    assert cursor.fetchone() == (1,)


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("url text, n integer", "n is integer, not bigint"),
        ("url text", "n bigint is missing"),
        ("url text, n bigint, more date", "more date is too many"),
        ("url text NOT NULL, n bigint", "url is NOT NULL"),
    ],
)
def test_another_shape_is_refused_with_the_difference(
    address: PostgresAddress, schema: str, cursor: Any, ddl: str, told: str
) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t ({ddl})")
    with pytest.raises(DsError) as problem:
        load(address, target(schema), 1)
    assert problem.value.condition == "TARGET_DIFFERS"
    assert told in problem.value.message


def test_upsert_wants_a_unique_key(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t (n bigint, url text)")
    with pytest.raises(DsError, match="no unique key"):
        load(address, target(schema, mode="upsert"), 1)


def test_a_users_view_is_no_target(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE VIEW {schema}.t AS SELECT 'x'::text AS url, 1::bigint AS n")
    with pytest.raises(DsError) as problem:
        load(address, target(schema), 1)
    assert problem.value.condition == "TARGET_NOT_A_TABLE"


def test_a_missing_schema_is_named(address: PostgresAddress) -> None:
    with pytest.raises(DsError) as problem:
        load(address, target("nowhere"), 1)
    assert problem.value.condition == "TARGET_SCHEMA_MISSING"


def test_a_row_the_table_rejects(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE TABLE {schema}.t (url text, n bigint CHECK (n < 10))")
    with pytest.raises(DsError) as problem:
        load(address, target(schema), 1, rows(("payload-in-row", 11)))
    assert problem.value.condition == "TARGET_REJECTS_ROWS"
    assert "payload-in-row" not in str(problem.value)
    cursor.execute(f"SELECT count(*) FROM {schema}.t")
    assert cursor.fetchone() == (0,)


def test_wrong_password(address: PostgresAddress, schema: str) -> None:
    wrong = replace(address, password="wrong-secret-1")
    with pytest.raises(DsError) as problem:
        load(wrong, target(schema), 1)
    assert problem.value.condition == "STORE_LOGIN_REFUSED"
    assert "wrong-secret-1" not in str(problem.value) + repr(problem.value) + repr(wrong)


def test_unreachable(address: PostgresAddress) -> None:
    gone = replace(address, url="postgresql://127.0.0.1:1/postgres")
    with pytest.raises(DsError) as problem:
        load(gone, target("public"), 1)
    assert (problem.value.condition, problem.value.fault.hint) == ("STORE_UNREACHABLE", "back_off")
    assert "127.0.0.1:1" in problem.value.message


def test_a_broken_connection_is_opened_again(address: PostgresAddress, schema: str, cursor: Any) -> None:
    loader = Driven(PostgresLoader(address, target(schema), SinkIdentity("j", 1)))
    loader.prepare()
    loader.load(rows(("./a", 1)), 0)
    cursor.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'ds-dagster' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(DsError) as problem:
        loader.load(rows(("./b", 1)), 1)
    assert problem.value.fault.domain == "external"
    assert loader.load(rows(("./b", 1)), 1).rows == 1
    loader.close()
    cursor.execute(f"SELECT count(*) FROM {schema}.t")
    assert cursor.fetchone() == (2,)


def test_what_a_source_of_changes_copies_first(address: PostgresAddress, schema: str, cursor: Any) -> None:
    read = f"'postgresql.cdc.table.list' = '{schema}.t,{schema}.u,{schema}.none'"
    text = f"""CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:5432/d', 'postgres.username' = 'u');
      CREATE STREAM t (after BYTES) WITH ('store' = 'pg', 'value.format' = 'json', {read});"""
    root = Path("/nowhere")
    project = compile_texts([("t.sql", text)], Settings(root=root, sql=root, state=root / ".ds", store="pg"))
    (relation,) = project.catalog.relations.values()
    with closing(PostgresEntities(address)) as operations:
        assert operations.volume(relation) is None, "no table is there"
        for table, rows in (("t", 300), ("u", 20)):
            cursor.execute(f"CREATE TABLE {schema}.{table} AS SELECT g AS id FROM generate_series(1, {rows}) g")
        cursor.execute(f"ANALYZE {schema}.t, {schema}.u")
        volume = operations.volume(relation)
    assert volume is not None
    assert volume.records == 320 and 320 * 8 < volume.bytes < 200_000


def test_admin(postgres_settings: Mapping[str, str], address: PostgresAddress, schema: str) -> None:
    load(address, target(schema), 1, rows(("./a", 1)))
    admin = PostgresAdmin("warehouse", postgres_settings)
    assert admin.probe().ok
    assert admin.describe(f"{schema}.t") is not None
    assert admin.describe(f"{schema}.none") is None
    assert f"{schema}.t" in [facts.name for facts in admin.entities()]
    columns, found = admin.select(f"SELECT url, n FROM {schema}.t")
    assert (list(columns), list(found)) == ([("url", "text"), ("n", "bigint")], [("./a", 1)])
    with pytest.raises(DsError):
        admin.select(f"DELETE FROM {schema}.t RETURNING url")
    admin.close()
    gone = PostgresAdmin("warehouse", {**postgres_settings, "password": "wrong-secret-1"}).probe()
    assert not gone.ok and "refused the login" in gone.message


def test_a_ledger_of_an_earlier_package_is_taken_over(address: PostgresAddress, schema: str, cursor: Any) -> None:
    """It knew batches by number alone."""
    load(address, target(schema), 1, rows(("./a", 1)))
    cursor.execute(f"ALTER TABLE {schema}.ds_ledger DROP COLUMN offsets, DROP COLUMN ends")
    loader = Driven(PostgresLoader(address, target(schema), SinkIdentity("j", 1)))
    loader.prepare()
    assert loader.load(rows(("./a", 9)), Tip(0, "bb")).replayed, "compared by number"
    loader.load(rows(("./b", 1)), Tip(1, "cc"))
    with pytest.raises(DsError) as problem:
        loader.load(rows(("./b", 9)), Tip(1, "dd"))
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"
    loader.close()


def test_the_columns_of_a_table_whose_changes_are_read(address: PostgresAddress, schema: str, cursor: Any) -> None:
    cursor.execute(f"CREATE TABLE {schema}.orders (id bigint PRIMARY KEY, label text, gone int)")
    relation = cast("Relation", SimpleNamespace(entity=f"{schema}.orders", option=lambda _: None))
    with closing(PostgresEntities(address)) as operations:
        natives = [(c.name, c.native) for c in operations.columns_of(relation, f"{schema}.orders")]
        assert natives == [("id", "bigint"), ("label", "text"), ("gone", "integer")]
        cursor.execute(f"ALTER TABLE {schema}.orders DROP COLUMN gone, ADD COLUMN price numeric(9,2)")
        changed = [(c.name, c.native) for c in operations.columns_of(relation, f"{schema}.orders")]
        assert changed == [("id", "bigint"), ("label", "text"), ("price", "numeric(9,2)")]
        assert operations.columns_of(relation, f"{schema}.nothing") == ()
