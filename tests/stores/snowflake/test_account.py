"""What only Snowflake can get wrong, on the stand-in through the real connector: names, types, shapes, full refresh,
a second writer, control."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
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
from ds_dagster.datatypes import decimal as decimal_type
from ds_dagster.errors import DsError
from ds_dagster.stores.snowflake.admin import SnowflakeAdmin
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.kind import Snowflake
from ds_dagster.stores.snowflake.loader import SnowflakeLoader
from tests import snowflake_server
from tests.driven import Driven
from tests.snowflake_server import DATABASE

pytestmark = pytest.mark.servers
UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeAddress]:
    with snowflake_server.running(tmp_path_factory.mktemp("snowflake")) as found:
        yield found


@pytest.fixture
def run(address: SnowflakeAddress) -> Iterator[Any]:
    with snowflake_server.sql(address) as found:
        yield found


@pytest.fixture
def schema(run: Any) -> Iterator[str]:
    name = f"S_{uuid.uuid4().hex[:8].upper()}"
    run(f"CREATE SCHEMA {DATABASE}.{name}")
    run(f"USE SCHEMA {DATABASE}.{name}")
    yield name
    run(f"DROP SCHEMA {DATABASE}.{name} CASCADE")


def column(name: str, type_: DataType, nullable: bool = True) -> TableColumn:
    native = Snowflake().native_type(type_)
    return TableColumn(name, type_, native or "VARIANT", nullable, native is None)


def target(schema: str, table: str = "T", mode: str = "append", refresh: str = "incremental") -> TableTarget:
    columns = (column("url", VARCHAR), column("n", BIGINT))
    key = ("url",) if mode == "upsert" else ()
    return TableTarget((DATABASE, schema, table), columns, key, mode, refresh)  # type: ignore[arg-type]


def rows(*pairs: tuple[str, int]) -> pyarrow.Table:
    urls, counts = [url for url, _ in pairs], [n for _, n in pairs]
    return pyarrow.table({"url": pyarrow.array(urls, pyarrow.string()), "n": pyarrow.array(counts, pyarrow.int64())})


def load(address: SnowflakeAddress, to: TableTarget, version: int, *batches: pyarrow.Table, job: str = "j") -> int:
    loader = Driven(SnowflakeLoader(address, to, SinkIdentity(job, version)))
    try:
        loader.prepare()
        for epoch, batch in enumerate(batches):
            loader.load(batch, epoch)
        return loader.finish()
    finally:
        loader.close()


ALL_COLUMNS = (
    column("b", BOOLEAN), column("t", TINYINT), column("s", SMALLINT), column("i", INTEGER), column("n", BIGINT),
    column("m", decimal_type(12, 2)), column("v", Scalar("VARCHAR", length=10)), column("d", DATE),
    column("clock", Scalar("TIME", precision=6)), column("ts", TIMESTAMP), column("tz", TIMESTAMP_LTZ),
    column("by", VARBINARY), column("a", ArrayType(VARCHAR)), column("st", StructType((StructField("city", VARCHAR),))),
    column('odd "name', VARCHAR), column("mixedCase", VARCHAR), column("f", Scalar("FLOAT")), column("x", DOUBLE),
)  # fmt: skip
MOMENT = datetime.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=UTC).replace(tzinfo=None)


def all_types(*, nested: bool) -> tuple[tuple[TableColumn, ...], pyarrow.Table]:
    """Columns of every type, and two rows: values, and NULLs."""
    values = {
        "b": pyarrow.array([True, None]),
        "t": pyarrow.array([7, None], pyarrow.int8()),
        "s": pyarrow.array([300, None], pyarrow.int16()),
        "i": pyarrow.array([70000, None], pyarrow.int32()),
        "n": pyarrow.array([2**62, None], pyarrow.int64()),
        "m": pyarrow.array([decimal.Decimal("1234567890.25"), None], pyarrow.decimal128(12, 2)),
        "v": pyarrow.array(["ä€'\\", None]),
        "d": pyarrow.array([MOMENT.date(), None]),
        "clock": pyarrow.array([MOMENT.time(), None], pyarrow.time64("us")),
        "ts": pyarrow.array([MOMENT, None], pyarrow.timestamp("us")),
        "tz": pyarrow.array([MOMENT, None], pyarrow.timestamp("us", "UTC")),
        "by": pyarrow.array([b"\x00\xff", None], pyarrow.binary()),
        "a": pyarrow.array(['["x",null]', None]),
        "st": pyarrow.array(['{"city":"Ulm"}', None]),
        'odd "name': pyarrow.array(["quoted", None]),
        "mixedCase": pyarrow.array(["kept", None]),
        "f": pyarrow.array([1.5, None], pyarrow.float32()),
        "x": pyarrow.array([2.25, None], pyarrow.float64()),
    }
    odd = ("a", "st", 'odd "name', "mixedCase")
    columns = tuple(c for c in ALL_COLUMNS if nested or c.name not in odd)
    return columns, pyarrow.table({c.name: values[c.name] for c in columns})


@pytest.mark.parametrize("nested", [True, False], ids=["through the load table", "direct"])
def test_every_type_arrives(address: SnowflakeAddress, schema: str, run: Any, nested: bool) -> None:
    columns, batch = all_types(nested=nested)
    assert load(address, TableTarget((DATABASE, schema, "T"), columns), 1, batch) == 2
    found = dict(
        zip(
            ("b", "t", "s", "i", "n", "m", "v", "d", "clock", "ts", "tz", "by", "f", "x"),
            run('SELECT B, T, S, I, N, M, V, D, CLOCK, TS, TZ, "BY", F, X FROM T WHERE B')[0],
            strict=True,
        )
    )
    assert found == {
        "b": True, "t": 7, "s": 300, "i": 70000, "n": 2**62, "m": decimal.Decimal("1234567890.25"), "v": "ä€'\\",
        "d": MOMENT.date(), "clock": MOMENT.time(), "ts": MOMENT, "tz": MOMENT.replace(tzinfo=UTC),
        "by": b"\x00\xff", "f": 1.5, "x": 2.25,
    }  # fmt: skip
    everything = " AND ".join(f'"{name.upper()}" IS NULL' for name in found)
    assert run(f"SELECT COUNT(*) FROM T WHERE {everything}") == [(1,)]
    if nested:
        ((a, st, odd, mixed),) = run('SELECT A, ST, "odd ""name", "mixedCase" FROM T WHERE B')
        assert (json.loads(a), json.loads(st), odd, mixed) == (["x", None], {"city": "Ulm"}, "quoted", "kept")


def test_a_table_made_from_our_types_is_no_other_shape(address: SnowflakeAddress, schema: str) -> None:
    to = TableTarget((DATABASE, schema, "T"), ALL_COLUMNS)
    assert [load(address, to, 1) for _ in range(2)] == [0, 0]


def test_names_to_the_letter(address: SnowflakeAddress, schema: str, run: Any) -> None:
    to = replace(target(schema, mode="upsert"), path=(DATABASE, schema, 'visits of "all"'))
    load(address, to, 1, rows(("./a", 1)))
    assert run('SELECT "URL", n FROM "visits of ""all"""') == [("./a", 1)]


def test_full_refresh_keeps_a_view_over_the_table(address: SnowflakeAddress, schema: str, run: Any) -> None:
    to = target(schema, refresh="full")
    load(address, to, 1, rows(("./a", 1)))
    run("CREATE VIEW V AS SELECT SUM(N) AS TOTAL FROM T")
    assert load(address, to, 2, rows(("./b", 4)), rows(("./c", 3))) == 2
    assert run("SELECT TOTAL FROM V") == [(7,)]
    left = [row[0] for row in run(f"SELECT TABLE_NAME FROM {DATABASE}.INFORMATION_SCHEMA.TABLES")]
    assert not [name for name in left if "__DS_NEW_" in name or "__DS_LOAD_" in name]


def test_publishing_twice_counts_once(address: SnowflakeAddress, schema: str, run: Any) -> None:
    to = target(schema, refresh="full", mode="upsert")
    load(address, to, 1, rows(("./a", 1)).append_column("__deleted", pyarrow.array([False])))
    assert load(address, to, 1) == 1, "the run was published; a restarted step tells the same"
    assert run("SELECT COUNT(*) FROM T") == [(1,)]


def test_a_killed_full_refresh_goes_on_where_it_was(address: SnowflakeAddress, schema: str, run: Any) -> None:
    to = target(schema, refresh="full")
    load(address, to, 1, rows(("./old", 1)))
    killed = Driven(SnowflakeLoader(address, to, SinkIdentity("j", 2)))
    killed.prepare()
    killed.load(rows(("./a", 1)), 0)
    again = Driven(SnowflakeLoader(address, to, SinkIdentity("j", 2)))
    again.prepare()
    assert again.load(rows(("./a", 1)), 0).replayed
    again.load(rows(("./b", 1)), 1)
    assert again.finish() == 2
    assert run("SELECT URL FROM T ORDER BY URL") == [("./a",), ("./b",)]
    for loader in (killed, again):
        loader.close()


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("URL VARCHAR, N NUMBER(5,0)", "N is NUMBER(5,0), not NUMBER(38,0)"),
        ("URL VARCHAR", "N NUMBER(38,0) is missing"),
        ("URL VARCHAR, N NUMBER(38,0), MORE DATE", "MORE DATE is too many"),
        ("URL VARCHAR NOT NULL, N NUMBER(38,0)", "URL is NOT NULL"),
        ('"url" VARCHAR, N NUMBER(38,0)', "URL VARCHAR is missing"),
    ],
)
def test_another_shape_is_refused_with_the_difference(
    address: SnowflakeAddress, schema: str, run: Any, ddl: str, told: str
) -> None:
    run(f"CREATE TABLE T ({ddl})")
    with pytest.raises(DsError) as problem:
        load(address, target(schema), 1)
    assert problem.value.condition == "TARGET_DIFFERS"
    assert told in problem.value.message


def test_a_users_own_table_with_the_same_columns_is_filled(address: SnowflakeAddress, schema: str, run: Any) -> None:
    run("CREATE TABLE T (N BIGINT, URL TEXT)")
    load(address, target(schema), 1, rows(("./a", 1)))
    assert run("SELECT URL, N FROM T") == [("./a", 1)]


def test_a_users_view_is_no_target(address: SnowflakeAddress, schema: str, run: Any) -> None:
    run("CREATE VIEW T AS SELECT 'x' AS URL, 1 AS N")
    with pytest.raises(DsError) as problem:
        load(address, target(schema), 1)
    assert problem.value.condition == "TARGET_NOT_A_TABLE"


def test_what_is_not_there_is_named(address: SnowflakeAddress) -> None:
    for place, condition in (
        ((DATABASE, "NOWHERE", "T"), "TARGET_SCHEMA_MISSING"),
        (("NOWHERE", "PUBLIC", "T"), "TARGET_DATABASE_MISSING"),
    ):
        with pytest.raises(DsError) as problem:
            load(address, replace(target("S"), path=place), 1)
        assert problem.value.condition == condition
        assert "NOWHERE" in problem.value.message


def test_a_row_the_table_rejects(address: SnowflakeAddress, schema: str, run: Any) -> None:
    load(address, target(schema), 1)
    run("DROP TABLE T")
    run("CREATE TABLE T (URL NUMBER(38,0), N NUMBER(38,0))")
    loader = Driven(SnowflakeLoader(address, target(schema), SinkIdentity("j", 1)))
    with pytest.raises(DsError) as problem:
        loader.load(rows(("payload-in-row", 11)), 0)
    assert problem.value.condition == "TARGET_REJECTS_ROWS"
    assert "payload-in-row" not in f"{problem.value} {problem.value.detail}"
    assert run("SELECT COUNT(*) FROM T") == [(0,)]


def test_a_second_writer_of_a_batch_changes_nothing(
    address: SnowflakeAddress, schema: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was given up is still in its transaction when the next one comes with the same batch."""
    first, second = (Driven(SnowflakeLoader(address, target(schema), SinkIdentity("j", 1))) for _ in range(2))
    first.prepare()
    second.prepare()
    original = first._apply
    told: list[str] = []

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        with pytest.raises(DsError) as problem:
            second.load(rows(("./a", 1)), 0)
        told.append(problem.value.condition)
        return result

    monkeypatch.setattr(first, "_apply", meanwhile)
    assert first.load(rows(("./a", 1)), 0).rows == 1
    assert told == ["TARGET_LOCKED"]
    assert second.load(rows(("./a", 1)), 0).replayed
    assert run("SELECT COUNT(*) FROM T") == [(1,)]
    first.close()
    second.close()


def test_a_lost_session_is_opened_again(address: SnowflakeAddress, schema: str, run: Any) -> None:
    loader = Driven(SnowflakeLoader(address, target(schema), SinkIdentity("j", 1)))
    loader.prepare()
    loader.load(rows(("./a", 1)), 0)
    loader._connection.rest._token = "of a session that is gone"
    with pytest.raises(DsError) as problem:
        loader.load(rows(("./b", 1)), 1)
    assert (problem.value.condition, problem.value.fault.domain) == ("STORE_UNREACHABLE", "external")
    assert loader.load(rows(("./b", 1)), 1).rows == 1
    loader.close()
    assert run("SELECT COUNT(*) FROM T") == [(2,)]


def test_unreachable(address: SnowflakeAddress, schema: str) -> None:
    gone = replace(address, url="http://127.0.0.1:1")
    with pytest.raises(DsError) as problem:
        load(gone, target(schema), 1)
    assert (problem.value.condition, problem.value.fault.hint) == ("STORE_UNREACHABLE", "back_off")
    assert "127.0.0.1:1" in problem.value.message


def test_admin(address: SnowflakeAddress, schema: str) -> None:
    load(address, target(schema, mode="upsert"), 1, rows(("./a", 1)))
    load(address, target(schema, table="odd name"), 1)
    settings = {
        "account_id": address.account_id, "url": address.url, "username": address.username,
        "password": address.password, "warehouse": address.warehouse,
    }  # fmt: skip
    admin = SnowflakeAdmin("sf", settings)
    try:
        assert admin.probe().ok, admin.probe()
        facts = admin.describe(f"{DATABASE}.{schema}.T")
        assert facts is not None and facts.name == f"{DATABASE}.{schema}.T"
        assert admin.describe(f"{DATABASE.lower()}.{schema.lower()}.t") == facts, "names fold as they do in SQL"
        assert admin.describe(f'{DATABASE}.{schema}."odd name"') is not None
        assert admin.describe(f"{DATABASE}.{schema}.NONE") is None
        assert admin.describe("T") is None
        names = [facts.name for facts in admin.entities()]
        assert {f"{DATABASE}.{schema}.T", f'{DATABASE}.{schema}."odd name"'} <= set(names)
        assert not [name for name in names if "__DS_" in name]
        with pytest.raises(DsError, match="STORE_NOT_A_SOURCE"):
            admin.records("T", from_beginning=True, limit=1, stopped=lambda: True)
    finally:
        admin.close()
    without = SnowflakeAdmin("sf", {**settings, "warehouse": "NO_SUCH_WH"})
    assert "no warehouse NO_SUCH_WH" in without.probe().message
    without.close()
    gone = SnowflakeAdmin("sf", {**settings, "url": "http://127.0.0.1:1"}).probe()
    assert not gone.ok and "does not answer" in gone.message


def test_a_ledger_of_an_earlier_package_is_taken_over(address: SnowflakeAddress, schema: str, run: Any) -> None:
    """It knew batches by number alone."""
    load(address, target(schema), 1, rows(("./a", 1)))
    run("ALTER TABLE T__DS_LEDGER DROP COLUMN OFFSETS")
    run("ALTER TABLE T__DS_LEDGER DROP COLUMN ENDS")
    loader = Driven(SnowflakeLoader(address, target(schema), SinkIdentity("j", 1)))
    loader.prepare()
    assert loader.load(rows(("./a", 9)), Tip(0, "bb")).replayed, "compared by number"
    loader.load(rows(("./b", 1)), Tip(1, "cc"))
    with pytest.raises(DsError) as problem:
        loader.load(rows(("./b", 9)), Tip(1, "dd"))
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"
    loader.close()
