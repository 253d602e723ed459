"""Snowflake without a server: properties, names, types, statements, keys, what failures mean."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from ds_dagster.catalog.declaring.builder import declare
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    decimal,
)
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.snowflake.connection import CALL_SECONDS, SnowflakeAddress, load_key
from ds_dagster.stores.snowflake.kind import Snowflake
from ds_dagster.stores.snowflake.names import account_name, column_name, shown_path, split_path, stored_name
from ds_dagster.stores.snowflake.statements import PUBLISHED, SnowflakeStatements
from ds_dagster.stores.snowflake.tables import ExistingColumns, Names, accepts, goes_direct, is_ours, shape_difference

SECRET = "marked-secret-of-snowflake"
BASE = {
    "snowflake.account_id": "'myorg-acme'",
    "snowflake.warehouse_name": "'WH'",
    "snowflake.username": "'loader'",
    "snowflake.password": "'${SF_PASSWORD}'",
}
ADDRESS = SnowflakeAddress("sf", "myorg-acme", username="loader", warehouse="WH", role="R", password=SECRET)


# --- properties -------------------------------------------------------------------------------------------------------


def create_store(without: tuple[str, ...] = (), **more: str) -> str:
    values = {**BASE, **{name.replace("__", "."): value for name, value in more.items()}}
    written = ", ".join(f"'{name}' = {value}" for name, value in values.items() if name not in without)
    return f"CREATE STORE sf WITH ('type' = SNOWFLAKE, {written});"


@pytest.fixture
def declared(tmp_path: Path) -> Callable[[str], tuple[StoreDefinition | None, list[str]]]:
    def run(text: str) -> tuple[StoreDefinition | None, list[str]]:
        settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", database="db")
        found = declare([parse_file("a.sql", text)], settings, KINDS)
        return found.catalog.stores.get("sf"), [d.text() for d in found.diagnostics if d.severity == "error"]

    return run


PASSWORD = ("snowflake.password",)


@pytest.mark.parametrize(
    ("without", "more"),
    [
        ((), {}),
        (PASSWORD, {"snowflake__client__key_file": "'@k.p8'", "snowflake__client__key_passphrase": "'${P}'"}),
        (PASSWORD, {"snowflake__access_token": "'${T}'"}),
        ((*PASSWORD, "snowflake.username"), {"snowflake__oauth_token": "'${T}'"}),
        ((), {"uris": "'https://acme.privatelink.snowflakecomputing.com'", "snowflake__role_name": "'R'"}),
        ((), {"uris": "'http://127.0.0.1:8080'", "tls__disabled": "TRUE"}),
        ((), {"uris": "'${ADDRESS}'", "snowflake__cloud__region": '"AWS us-east-1"'}),
    ],
)
def test_ways_to_connect(declared: Any, without: tuple[str, ...], more: dict[str, str]) -> None:
    store, wrong = declared(create_store(without, **more))
    assert store is not None, wrong
    assert not wrong


@pytest.mark.parametrize(
    ("without", "more", "condition", "part"),
    [
        (("snowflake.account_id",), {}, "STORE_PROPERTY_MISSING", "snowflake.account_id"),
        (("snowflake.warehouse_name",), {}, "STORE_PROPERTY_MISSING", "snowflake.warehouse_name"),
        (("snowflake.username",), {}, "STORE_PROPERTY_MISSING", "snowflake.username"),
        (PASSWORD, {}, "STORE_PROPERTY_MISSING", "snowflake.oauth_token"),
        ((), {"snowflake__access_token": "'${T}'"}, "STORE_PROPERTIES_CONTRADICT", "one login"),
        ((), {"snowflake__client__key_passphrase": "'${T}'"}, "STORE_PROPERTIES_CONTRADICT", "key file"),
        ((), {"uris": "'acme'"}, "PROPERTY_INVALID", "https://"),
        ((), {"uris": "'https://u:p@acme'"}, "PROPERTY_INVALID", "without a login"),
        ((), {"uris": "'http://acme.example'"}, "PROPERTY_INVALID", "tls.disabled"),
        ((), {"uris": "'https://acme:port'"}, "PROPERTY_INVALID", "https://"),
        ((), {"snowflake__warehouse": "'x'"}, "UNKNOWN_PROPERTY", "snowflake.warehouse_name"),
        ((), {"postgres__username": "'x'"}, "PROPERTY_OF_OTHER_STORE", "POSTGRESQL"),
    ],
)
def test_refused_stores(
    declared: Any, without: tuple[str, ...], more: dict[str, str], condition: str, part: str
) -> None:
    store, wrong = declared(create_store(without, **more))
    assert store is None
    assert len(wrong) == 1, wrong
    assert condition in wrong[0]
    assert part in wrong[0]


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], LoadedProject]:
    def run(text: str) -> LoadedProject:
        (tmp_path / "pyproject.toml").write_text('[tool.ds-dagster]\nsql = "sql"\ndatabase = "db"\n', encoding="utf-8")
        (tmp_path / "sql").mkdir()
        source = (
            "CREATE STORE m WITH ('type' = MEMORY);"
            "CREATE STREAM events (k VARCHAR, n BIGINT, \"K\" VARCHAR) WITH ('store' = 'm', 'topic' = 'e');"
        )
        (tmp_path / "sql" / "a.sql").write_text(source + create_store() + text, encoding="utf-8")
        return load_project(tmp_path)

    return run


TABLE = "CREATE TABLE {name} WITH ('store' = 'sf', {more}) AS SELECT {columns} FROM events;"


def table_sql(name: str = "counts", columns: str = "k, n", **more: str) -> str:
    written = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in more.items())
    return TABLE.format(name=name, more=written, columns=columns)


def test_a_table_as_published(project: Callable[[str], LoadedProject]) -> None:
    """As in the published pipelines: database, buffer, a table name; the schema has Snowflake's default."""
    more = {"snowflake__db__name": "Demo", "snowflake__buffer__millis": "5000"}
    more["snowflake__table__name"] = '"Visits"'
    found = project(table_sql(**more))
    (relation,) = [r for r in found.catalog.relations.values() if r.name.name == "counts"]
    kind, store = Snowflake(), found.catalog.store("sf")
    spec = kind.write_spec(store, relation, "incremental")
    assert spec.table is not None
    assert spec.table.path == ("DEMO", "PUBLIC", "Visits")
    assert [(c.name, c.native_type) for c in spec.table.columns] == [("k", "VARCHAR"), ("n", "NUMBER(38,0)")]
    assert (spec.delivery, spec.kind, spec.entity) == ("exactly_once", "batch", "sf.DEMO.PUBLIC.Visits")
    assert kind.uri(store, relation) == "snowflake://myorg-acme/DEMO/PUBLIC/Visits"
    assert kind.entity_plan(relation).name == 'DEMO.PUBLIC."Visits"'
    with pytest.raises(DsError, match="STORE_NOT_A_SOURCE"):
        kind.read_spec(store, relation, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("millis", "interval"), [(None, 10_000), ("0", 0), ("60000", 60_000)])
def test_a_continuous_load_wakes_the_warehouse_that_often(
    project: Callable[[str], LoadedProject], millis: str | None, interval: int
) -> None:
    more = {"snowflake__db__name": "D", "refresh__mode": "continuous"}
    found = project(table_sql(**more, **({} if millis is None else {"snowflake__buffer__millis": millis})))
    (relation,) = [r for r in found.catalog.relations.values() if r.name.name == "counts"]
    store = found.catalog.store("sf")
    assert Snowflake().write_spec(store, relation, "continuous").interval_millis == interval
    assert Snowflake().write_spec(store, relation, "incremental").interval_millis == 0


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (table_sql(snowflake__schema__name="S"), "RELATION_PROPERTY_MISSING"),
        ("CREATE TABLE counts (k VARCHAR) WITH ('store' = 'sf');", "RELATION_PROPERTY_MISSING"),
        (table_sql(snowflake__db__name="D", snowflake__buffer__millis="soon"), "PROPERTY_INVALID"),
        (table_sql(snowflake__db__name="D", postgresql__table__name="t"), "PROPERTY_OF_OTHER_STORE"),
        ("CREATE MATERIALIZED VIEW counts WITH ('store' = 'sf', 'snowflake.db.name' = 'D') AS SELECT k FROM events;",
         "STORE_CANNOT_HOLD"),
    ],
)  # fmt: skip
def test_refused_tables(project: Callable[[str], LoadedProject], text: str, condition: str) -> None:
    found = project(text)
    assert condition in [d.condition for d in found.diagnostics if d.severity == "error"]


def test_two_columns_that_become_one(project: Callable[[str], LoadedProject]) -> None:
    found = project(table_sql(columns='k, "K"', snowflake__db__name="D"))
    (problem,) = found.errors
    assert problem.condition == "TARGET_COLUMNS_CLASH"
    assert problem.span is not None


def test_what_the_connector_gets(declared: Any, tmp_path: Path) -> None:
    store, _ = declared(create_store(snowflake__role_name="'R'", snowflake__cloud__region="'AWS us-east-1'"))

    def resolve(value: PropertyValue) -> str:
        return SECRET if value.secret else str(value.value)

    found = Snowflake().client_settings(store, resolve)
    assert dict(found) == {
        "account": "myorg-acme", "application": "ds_dagster", "user": "loader", "password": SECRET,
        "warehouse": "WH", "role": "R",
    }  # fmt: skip


def test_logins_and_addresses_as_arguments() -> None:
    other = {"password": ""}
    oauth = replace(ADDRESS, **other, oauth_token=SECRET).client_arguments()  # type: ignore[arg-type]
    token = replace(ADDRESS, **other, access_token=SECRET).client_arguments()  # type: ignore[arg-type]
    assert (oauth["authenticator"], oauth["token"]) == ("OAUTH", SECRET)
    assert (token["authenticator"], token["token"]) == ("PROGRAMMATIC_ACCESS_TOKEN", SECRET)
    assert "password" not in {**oauth, **token}
    local = replace(ADDRESS, url="http://127.0.0.1:81").client_arguments()
    assert (local["host"], local["port"], local["protocol"]) == ("127.0.0.1", 81, "http")
    assert replace(ADDRESS, url="https://x.example").client_arguments()["port"] == 443
    assert ADDRESS.shown == "myorg-acme.snowflakecomputing.com"
    assert SECRET not in repr(ADDRESS)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "stored"),
    [("demo_db", "DEMO_DB"), ('"Demo"', "Demo"), ('"a""b"', 'a"b'), ("my-table", "my-table"), ("T$1", "T$1")],
)
def test_names_of_properties(written: str, stored: str) -> None:
    assert stored_name(written) == stored
    assert split_path(shown_path(("D", stored))) == ("D", stored)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("viewtime", "VIEWTIME"), ("accountId", "accountId"), ("a b", "a b"), ("UP", "UP")]
)
def test_names_of_columns(ours: str, theirs: str) -> None:
    assert column_name(ours) == theirs


@pytest.mark.parametrize(
    ("account", "region", "name"),
    [
        ("myorg-acme", "AWS us-east-1", "myorg-acme"),
        ("xy12345", "AWS us-west-2", "xy12345"),
        ("xy12345", "AWS us-east-1", "xy12345.us-east-1"),
        ("xy12345", "AWS us-east-2", "xy12345.us-east-2.aws"),
        ("xy12345", "AZURE west-europe", "xy12345.west-europe.azure"),
        ("xy12345", "us-central1.gcp", "xy12345.us-central1.gcp"),
        ("xy12345.us-east-2.aws", "AWS us-east-2", "xy12345.us-east-2.aws"),
        ("xy12345", "", "xy12345"),
    ],
)
def test_names_of_accounts(account: str, region: str, name: str) -> None:
    assert account_name(account, region) == name


def test_helper_tables_are_found_by_the_pattern_and_never_shared() -> None:
    identity = SinkIdentity("j", 1)
    odd, plain = Names.of('a "b', identity), Names.of("a__b", identity)
    assert odd.pattern == "a__b%"
    assert {odd.ledger, odd.load, odd.new}.isdisjoint({plain.ledger, plain.load, plain.new})
    assert all(is_ours(name) for name in (odd.ledger, odd.load, odd.new))
    long = Names.of("T" * 255, identity)
    assert max(len(name) for name in (long.ledger, long.load, long.new, long.stage)) <= 255


# --- types ------------------------------------------------------------------------------------------------------------


def column(name: str, type_: DataType, nullable: bool = True) -> TableColumn:
    native = Snowflake().native_type(type_)
    return TableColumn(name, type_, native or "VARIANT", nullable, native is None)


@pytest.mark.parametrize(
    ("type_", "native"),
    [
        (BOOLEAN, "BOOLEAN"), (TINYINT, "NUMBER(38,0)"), (BIGINT, "NUMBER(38,0)"), (FLOAT, "FLOAT"),
        (decimal(12, 2), "NUMBER(12,2)"), (VARCHAR, "VARCHAR"), (Scalar("VARCHAR", length=9), "VARCHAR(9)"),
        (DATE, "DATE"), (Scalar("TIME", precision=3), "TIME(9)"), (TIMESTAMP, "TIMESTAMP_NTZ(9)"),
        (TIMESTAMP_LTZ, "TIMESTAMP_LTZ(9)"), (VARBINARY, "BINARY"), (ArrayType(BIGINT), None),
        (MapType(VARCHAR, BIGINT), None),
    ],
)  # fmt: skip
def test_types(type_: DataType, native: str | None) -> None:
    assert Snowflake().native_type(type_) == native


@pytest.mark.parametrize(
    ("found", "type_", "fits"),
    [
        ("NUMBER(38,0)", BIGINT, True), ("NUMBER(19,0)", BIGINT, True), ("NUMBER(18,0)", BIGINT, False),
        ("NUMBER(38,2)", BIGINT, True), ("NUMBER(20,2)", BIGINT, False), ("FLOAT", BIGINT, False),
        ("NUMBER(10,0)", INTEGER, True), ("NUMBER(14,4)", decimal(12, 2), True),
        ("NUMBER(14,1)", decimal(12, 2), False), ("VARCHAR(16777216)", VARCHAR, True),
        ("VARCHAR(134217728)", VARCHAR, True), ("VARCHAR(100)", VARCHAR, False),
        ("VARCHAR(100)", Scalar("VARCHAR", length=10), True), ("TIMESTAMP_NTZ(9)", TIMESTAMP, True),
        ("TIMESTAMP_NTZ(3)", TIMESTAMP, False), ("TIMESTAMP_TZ(9)", TIMESTAMP_LTZ, True),
        ("TIMESTAMP_NTZ(9)", TIMESTAMP_LTZ, False), ("TIME(9)", Scalar("TIME"), True), ("DATE", DATE, True),
        ("BINARY(8388608)", VARBINARY, True), ("BINARY(10)", VARBINARY, False), ("VARIANT", ArrayType(BIGINT), True),
        ("VARCHAR(16777216)", ArrayType(BIGINT), False), ("FLOAT", DOUBLE, True), ("VECTOR(FLOAT, 3)", DOUBLE, False),
    ],
)  # fmt: skip
def test_columns_that_keep_our_values(found: str, type_: DataType, fits: bool) -> None:
    assert accepts(found, column("c", type_)) == fits


def test_the_difference_is_told_column_by_column() -> None:
    target = TableTarget(("D", "S", "T"), (column("a", BIGINT, nullable=False), column("b", VARCHAR)))
    existing = ExistingColumns({"A": ("VARCHAR(10)", False), "B": ("VARCHAR(16777216)", True), "C": ("DATE", False)})
    assert shape_difference(existing, target) == (
        "A is VARCHAR(10), not NUMBER(38,0); C DATE is too many; B is NOT NULL, the query's may be NULL"
    )


# --- statements -------------------------------------------------------------------------------------------------------

COLUMNS = (column("url", VARCHAR), column("n", BIGINT, nullable=False), column("tags", ArrayType(VARCHAR)))
UPSERT = SnowflakeStatements(
    TableTarget(("D", "S", "T"), COLUMNS, ("url",), "upsert", "incremental"), SinkIdentity("dev/o'brien/q", 2)
)
LOAD, LEDGER = UPSERT.names.load, '"D"."S"."T__DS_LEDGER"'
JOB = "'dev/o\\'brien/q'"
GOLDEN = {
    "use_database": 'USE DATABASE "D"',
    "use_schema": 'USE SCHEMA "D"."S"',
    "show_objects": 'SHOW OBJECTS LIKE \'T%\' IN SCHEMA "D"."S"',
    "create_stage": f'CREATE OR REPLACE TEMPORARY STAGE "{UPSERT.names.stage}"',
    "create_load": f'CREATE OR REPLACE TRANSIENT TABLE "D"."S"."{LOAD}" ("C1" VARCHAR, "C2" DECIMAL(38, 0), '
    '"C3" VARCHAR, "DELETED" BOOLEAN)',
    "lock": f'UPDATE {LEDGER} SET "AT" = CURRENT_TIMESTAMP() WHERE "EPOCH" = -2',
    "total": f'SELECT COALESCE(SUM("LOADED"), 0) FROM {LEDGER} WHERE ("JOB" = {JOB} AND "VERSION" = 2) '
    'AND "EPOCH" >= 0',
    "any_batch": f'SELECT 1 FROM {LEDGER} WHERE "EPOCH" >= 0 LIMIT 1',
    "any_row": 'SELECT 1 FROM "D"."S"."T" LIMIT 1',
    "insert_loaded": 'INSERT INTO "D"."S"."T" ("URL", "N", "TAGS") SELECT "C1", "C2", PARSE_JSON("C3") '
    f'FROM "D"."S"."{LOAD}" WHERE NOT "DELETED"',
}
GOLDEN_CALLS = {
    UPSERT.describe("T"): 'DESCRIBE TABLE "D"."S"."T"',
    UPSERT.create_table("T"): 'CREATE TABLE IF NOT EXISTS "D"."S"."T" ("URL" VARCHAR, "N" DECIMAL(38, 0) NOT NULL, '
    '"TAGS" VARIANT)',
    UPSERT.drop("X"): 'DROP TABLE IF EXISTS "D"."S"."X"',
    UPSERT.state(): 'SELECT MAX("VERSION"), MAX(CASE WHEN "VERSION" = 2 AND "EPOCH" >= 0 THEN "EPOCH" END), '
    f'MAX(CASE WHEN "VERSION" = 2 AND "EPOCH" = -1 THEN "LOADED" END) FROM {LEDGER} WHERE "JOB" = {JOB}',
    UPSERT.batch(7): f'SELECT "OFFSETS", "ENDS", "LOADED" FROM {LEDGER} WHERE ("JOB" = {JOB} AND "VERSION" = 2) '
    'AND "EPOCH" = 7',
    UPSERT.extend_ledger("OFFSETS"): f'ALTER TABLE {LEDGER} ADD "OFFSETS" VARCHAR',
    UPSERT.replace(): 'CREATE OR REPLACE TABLE "D"."S"."T" ("URL" VARCHAR, "N" DECIMAL(38, 0) NOT NULL, '
    f'"TAGS" VARIANT) COPY GRANTS AS SELECT "URL", "N", "TAGS" FROM "D"."S"."{UPSERT.names.new}"',
    UPSERT.claim(PUBLISHED, 3, None): f'INSERT INTO {LEDGER} ("JOB", "VERSION", "EPOCH", "LOADED", "OFFSETS", '
    f"\"ENDS\", \"AT\") SELECT {JOB}, 2, -1, 3, '', '', CURRENT_TIMESTAMP()",
    UPSERT.claim(7, 3, Tip(7, "aa", '{"it\'s":1}')): f'INSERT INTO {LEDGER} ("JOB", "VERSION", "EPOCH", "LOADED", '
    f'"OFFSETS", "ENDS", "AT") SELECT {JOB}, 2, 7, 3, \'aa\', \'{{"it\\\'s":1}}\', CURRENT_TIMESTAMP()',
    UPSERT.prune(5): f'DELETE FROM {LEDGER} WHERE ("JOB" = {JOB} AND "VERSION" = 2) AND "EPOCH" BETWEEN 0 AND 5',
    UPSERT.put("/tmp/o'b/*.parquet", 7): "PUT 'file:///tmp/o\\'b/*.parquet' "
    f"@{UPSERT.names.stage}/v2_b7/ AUTO_COMPRESS=FALSE OVERWRITE=TRUE",
    UPSERT.copy(7): f'COPY INTO "D"."S"."{LOAD}" FROM @{UPSERT.names.stage}/v2_b7/ FILE_FORMAT = (TYPE=PARQUET '
    "USE_LOGICAL_TYPE=TRUE BINARY_AS_TEXT=FALSE) MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT "
    "FORCE = TRUE PURGE = TRUE",
    UPSERT.delete_loaded(nulls=False): f'DELETE FROM "D"."S"."T" USING "D"."S"."{LOAD}" AS s WHERE "T"."URL" = s."C1"',
    UPSERT.delete_loaded(nulls=True): f'DELETE FROM "D"."S"."T" USING "D"."S"."{LOAD}" AS s '
    'WHERE "T"."URL" IS NOT DISTINCT FROM s."C1" AND s."C1" IS NULL',
    UPSERT.clear("T"): 'DELETE FROM "D"."S"."T"',
}


@pytest.mark.parametrize("name", GOLDEN)
def test_statements(name: str) -> None:
    assert getattr(UPSERT, name)() == GOLDEN[name]


@pytest.mark.parametrize("made", GOLDEN_CALLS)
def test_statements_with_arguments(made: str) -> None:
    assert made == GOLDEN_CALLS[made]


def test_the_ledger_has_one_lock_row_however_often_it_is_made() -> None:
    table, row = UPSERT.create_ledger()
    assert table.startswith(f"CREATE TABLE IF NOT EXISTS {LEDGER} (")
    assert row == (
        f'INSERT INTO {LEDGER} ("JOB", "VERSION", "EPOCH", "LOADED") SELECT \'\', 0, -2, 0 FROM '
        f'(SELECT COUNT(*) AS "N" FROM {LEDGER} WHERE "EPOCH" = -2) AS L WHERE "N" = 0'
    )


def test_appends_of_plain_columns_go_right_into_the_table() -> None:
    def target(*columns: TableColumn, **more: Any) -> TableTarget:
        return TableTarget(("D", "S", "T"), columns, **more)

    plain = target(column("a", BIGINT))
    assert goes_direct(plain)
    assert not goes_direct(target(column("a", ArrayType(BIGINT))))
    assert not goes_direct(target(column("mixedCase", BIGINT)))
    assert not goes_direct(target(column("a", BIGINT), primary_key=("a",), mode="upsert"))
    identity = SinkIdentity("j", 1)
    assert SnowflakeStatements(plain, identity).copy(0).startswith('COPY INTO "D"."S"."T" FROM')
    full = SnowflakeStatements(replace(plain, refresh="full"), identity)
    assert full.copy(0).startswith(f'COPY INTO "D"."S"."{full.names.new}" FROM')
    assert full.publish() == f'INSERT INTO "D"."S"."T" ("A") SELECT "A" FROM "D"."S"."{full.names.new}"'
    staged = SnowflakeStatements(target(column("a", ArrayType(BIGINT))), identity)
    assert "WHERE" not in staged.insert_loaded(), "an append has no marks of deleted rows"


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of keys: plain, encrypted, of another kind, none at all."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    folder = tmp_path_factory.mktemp("keys")
    rsa_key = rsa.generate_private_key(65537, 2048)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(SECRET.encode())
    (folder / "plain.p8").write_bytes(rsa_key.private_bytes(pem, form, serialization.NoEncryption()))
    (folder / "locked.p8").write_bytes(rsa_key.private_bytes(pem, form, locked))
    other = ec.generate_private_key(ec.SECP256R1())
    (folder / "other.p8").write_bytes(other.private_bytes(pem, form, serialization.NoEncryption()))
    (folder / "none.p8").write_text("no key", encoding="utf-8")
    return folder


def test_keys_are_loaded(keys: Path) -> None:
    plain = load_key("sf", str(keys / "plain.p8"))
    assert plain == load_key("sf", str(keys / "locked.p8"), SECRET)
    arguments = replace(ADDRESS, password="", key_file=str(keys / "plain.p8")).client_arguments()
    assert (arguments["authenticator"], arguments["private_key"]) == ("SNOWFLAKE_JWT", plain)


@pytest.mark.parametrize(
    ("file", "passphrase", "reason"),
    [
        ("locked.p8", "", "it is encrypted"),
        ("locked.p8", "wrong", "passphrase is wrong"),
        ("plain.p8", SECRET, "it is not encrypted"),
        ("other.p8", "", "not an RSA key"),
        ("none.p8", "", "not a valid private key in PEM"),
        ("missing.p8", "", "No such file"),
    ],
)
def test_keys_that_cannot_be_used(keys: Path, file: str, passphrase: str, reason: str) -> None:
    with pytest.raises(DsError) as refused:
        load_key("sf", str(keys / file), passphrase)
    assert refused.value.condition == "STORE_KEY_INVALID"
    assert reason in refused.value.message
    assert SECRET not in str(refused.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowflake.connector", None)
    with pytest.raises(DsError) as refused:
        ADDRESS.connect()
    assert refused.value.condition == "STORE_DRIVER_MISSING"
    assert "ds-dagster[snowflake]" in refused.value.hint


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "state", "text", "condition", "domain"),
    [
        (390100, "28000", "Incorrect username or password was specified.", "STORE_LOGIN_REFUSED", "user"),
        (250001, "08001", "Failed to connect to DB: h:443. JWT token is invalid. [1]", "STORE_LOGIN_REFUSED", "user"),
        (390318, "08001", "OAuth access token expired.", "STORE_LOGIN_REFUSED", "user"),
        (250001, "08001", "Role 'X' specified in the connect string does not exist or not authorized.",
         "STORE_ROLE_REFUSED", "user"),
        (390112, "08001", "Your session has expired. Please login again.", "STORE_UNREACHABLE", "external"),
        (606, "57P03", "No active warehouse selected in the current session.", "STORE_WAREHOUSE_MISSING", "user"),
        (90073, "22000", "Warehouse 'WH' cannot be resumed because resource monitor 'M' has exceeded its quota.",
         "STORE_WAREHOUSE_MISSING", "user"),
        (3001, "42501", "Insufficient privileges to operate on schema 'S'.", "STORE_PERMISSION_DENIED", "user"),
        (2003, "02000", "SQL compilation error:\nTable 'T' does not exist or not authorized.",
         "STORE_PERMISSION_DENIED", "user"),
        (100038, "22018", "Numeric value 'payload-in-row' is not recognized", "TARGET_REJECTS_ROWS", "user"),
        (100072, "22000", "NULL result in a non-nullable column", "TARGET_REJECTS_ROWS", "user"),
        (625, "57014", "Statement '01' has locked table 'T' in transaction 1 and this lock has not yet been released.",
         "TARGET_LOCKED", "external"),
        (250001, "08001", "Could not connect to Snowflake backend after 2 attempt(s).",
         "STORE_UNREACHABLE", "external"),
        (290503, None, "HTTP 503: Service Unavailable", "STORE_UNREACHABLE", "external"),
        (253003, None, "Failed to upload", "STORE_UNREACHABLE", "external"),
        (290404, None, "HTTP 404: Not Found", "STORE_ACCOUNT_UNKNOWN", "user"),
        (None, None, "something else", "STORE_CALL_FAILED", "external"),
    ],
)  # fmt: skip
def test_what_failures_mean(code: int | None, state: str | None, text: str, condition: str, domain: str) -> None:
    errors = pytest.importorskip("snowflake.connector.errors")
    problem = errors.ProgrammingError(msg=text, errno=code, sqlstate=state)
    found = ADDRESS.failure(problem, "load a batch", "D.S.T", 3)
    assert (found.condition, found.fault.domain) == (condition, domain)
    assert "{" not in found.message + found.hint, "every parameter is given"
    assert "payload-in-row" not in f"{found} {found.detail}"
    assert SECRET not in f"{found} {found.params} {found.detail} {ADDRESS}"


class Refusing(BaseHTTPRequestHandler):
    """Answers every login as a real account refuses it."""

    status = 200
    body = b""
    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        sent = gzip.decompress(sent) if self.headers.get("Content-Encoding") == "gzip" else sent
        self.asked.append(json.loads(sent)["data"])
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def refusing() -> Iterator[Callable[[int, bytes], SnowflakeAddress]]:
    servers: list[ThreadingHTTPServer] = []

    def start(status: int, body: bytes) -> SnowflakeAddress:
        handler = type("Handler", (Refusing,), {"status": status, "body": body})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return replace(ADDRESS, url=f"http://127.0.0.1:{server.server_port}", call_seconds=2)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "text", "condition"),
    [
        (200, "390100", "Incorrect username or password was specified.", "STORE_LOGIN_REFUSED"),
        (200, "390144", "JWT token is invalid. [0b1c]", "STORE_LOGIN_REFUSED"),
        (200, "390303", "Invalid OAuth access token. [0b1c]", "STORE_LOGIN_REFUSED"),
        (200, "390189", "Role 'R' specified in the connect string does not exist or not authorized.",
         "STORE_ROLE_REFUSED"),
        (200, "390420", "Incoming request with IP/Token 1.2.3.4 is not allowed to access Snowflake.",
         "STORE_LOGIN_REFUSED"),
        (403, "", "", "STORE_ACCOUNT_UNKNOWN"),
        (404, "", "", "STORE_ACCOUNT_UNKNOWN"),
    ],
)  # fmt: skip
def test_refused_logins_through_the_real_connector(
    refusing: Callable[[int, bytes], SnowflakeAddress], status: int, code: str, text: str, condition: str
) -> None:
    pytest.importorskip("snowflake.connector")
    body = f'{{"data": {{}}, "code": "{code}", "message": "{text}", "success": false}}'.encode()
    with pytest.raises(DsError) as refused, closing(refusing(status, body).connect()):
        pass
    assert (refused.value.condition, refused.value.fault.hint) == (condition, "never")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("login", "authenticator"),
    [
        ("key_file", "SNOWFLAKE_JWT"),
        ("password", None),
        ("oauth_token", "OAUTH"),
        ("access_token", "PROGRAMMATIC_ACCESS_TOKEN"),
    ],
)
def test_every_login_is_told_to_the_account(
    refusing: Callable[[int, bytes], SnowflakeAddress], keys: Path, login: str, authenticator: str | None
) -> None:
    """What the real connector sends; a key proves its user by a signature and never leaves."""
    jwt = pytest.importorskip("jwt")
    answer = b'{"data": {}, "code": "390100", "message": "Incorrect username or password.", "success": false}'
    given = {"password": "", login: str(keys / "plain.p8") if login == "key_file" else SECRET}
    Refusing.asked.clear()
    with pytest.raises(DsError):
        replace(refusing(200, answer), **given).connect()  # type: ignore[arg-type]
    sent = Refusing.asked[0]
    assert (sent["ACCOUNT_NAME"], sent["LOGIN_NAME"]) == ("myorg-acme", "loader")
    assert sent.get("AUTHENTICATOR") == authenticator
    assert sent["SESSION_PARAMETERS"]["TIMEZONE"] == "UTC"
    if login == "key_file":
        claims = jwt.decode(sent["TOKEN"], options={"verify_signature": False})
        assert claims["sub"] == "MYORG-ACME.LOADER"
    else:
        assert sent["PASSWORD" if login == "password" else "TOKEN"] == SECRET


def test_a_statement_may_run_longer_than_a_login_may_take() -> None:
    assert CALL_SECONDS > 600, "the connector cancels statements after the time it repeats requests"
