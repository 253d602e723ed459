"""``ds query`` over tables and views in stores of every kind: each answers as another engine does, with our types."""

from __future__ import annotations

import importlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import resolve
from ds_dagster.cli.main import run
from ds_dagster.local.servers import down, up
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store, load_project
from ds_dagster.stores.postgres.connection import PostgresAddress
from tests import snowflake_server
from tests.fixtures.lake import s3_bucket
from tests.fixtures.warehouse import WAREHOUSE, workspace
from tests.questions.test_views import PAID, QUESTIONS, VISITS, moment, oracle

pytestmark = pytest.mark.servers
TABLES = """
CREATE {kind} visits (url VARCHAR, device VARCHAR, n BIGINT) WITH ('store' = 'x'{place});
CREATE {kind} paid (userid VARCHAR, total DECIMAL(38,2), latest TIMESTAMP_LTZ(3)) WITH ('store' = 'x'{place});
CREATE {kind} things (id BIGINT, ok BOOLEAN, d DOUBLE, m DECIMAL(10,2), da DATE, ts TIMESTAMP(3), tags ARRAY<VARCHAR>,
  place STRUCT<city VARCHAR, zip INTEGER>, counts MAP<VARCHAR, BIGINT>) WITH ('store' = 'x'{place});
CREATE {kind} missing (id BIGINT) WITH ('store' = 'x'{place});
"""


@dataclass(frozen=True)
class Shop:
    """A project whose tables stand in one store."""

    kind: str
    root: Path
    environment: Mapping[str, str]

    def spec(self, table: str) -> WriteSpec:
        project = load_project(self.root, strict=True)
        relation = project.catalog.relation(QualifiedName("d", "public", table))
        store = project.catalog.store(relation.store)
        return kind_of_store(project, relation).write_spec(store, relation, "incremental")

    def json_columns(self, table: str) -> Collection[str]:
        target = self.spec(table).table
        assert target is not None
        return {column.name for column in target.columns if column.as_json}

    def load(self, table: str, rows: pa.Table) -> None:
        spec = self.spec(table)
        module, _, function = spec.loader.partition(":")
        opened = getattr(importlib.import_module(module), function)
        loader = opened(
            spec, SinkIdentity(f"dev.{table}", 1), lambda value: resolve(value, self.environment, "store x")
        )
        loader.prepare(CheckpointTip())
        loader.load(rows, Tip(0))
        loader.close()


def _postgres(stack: ExitStack, folder: Path) -> tuple[str, str, Mapping[str, str]]:
    found = up(folder / "servers", only=["postgres"])
    stack.callback(down, folder / "servers")
    password = Path(str(found.postgres_password_file)).read_text(encoding="utf-8").strip()
    address = PostgresAddress("x", str(found.postgres), str(found.postgres_user), password, "disable")
    connection = address.control()
    connection.cursor().execute("CREATE SCHEMA shop")
    connection.commit()
    connection.close()
    store = (
        f"'type' = POSTGRESQL, 'uris' = '{found.postgres}', 'postgres.username' = '{found.postgres_user}', "
        "'postgres.password' = '${X_SECRET}', 'postgres.sslmode' = 'disable'"
    )
    return store, ", 'postgresql.schema.name' = 'shop'", {"X_SECRET": password}


def _delta(stack: ExitStack, folder: Path) -> tuple[str, str, Mapping[str, str]]:
    return f"'type' = DELTA, 'uris' = '{(folder / 'lake').as_uri()}'", "", {}


def _snowflake(stack: ExitStack, folder: Path) -> tuple[str, str, Mapping[str, str]]:
    address = stack.enter_context(snowflake_server.running(folder / "snowflake"))
    schema = f"S_{uuid.uuid4().hex[:8].upper()}"
    with snowflake_server.sql(address) as statement:
        statement(f"CREATE SCHEMA {snowflake_server.DATABASE}.{schema}")
    store = (
        f"'type' = SNOWFLAKE, 'uris' = '{address.url}', 'tls.disabled' = TRUE, "
        f"'snowflake.account_id' = '{address.account_id}', 'snowflake.username' = 'local', "
        "'snowflake.password' = '${X_SECRET}', 'snowflake.warehouse_name' = 'FAKESNOW_WAREHOUSE'"
    )
    place = f", 'snowflake.db.name' = '{snowflake_server.DATABASE}', 'snowflake.schema.name' = '{schema}'"
    return store, place, {"X_SECRET": "local"}


def _databricks(stack: ExitStack, folder: Path) -> tuple[str, str, Mapping[str, str]]:
    bucket = stack.enter_context(s3_bucket("lake"))
    made = stack.enter_context(workspace(bucket))
    store = (
        f"'type' = DATABRICKS, 'uris' = '{made.url}', 'tls.disabled' = TRUE, "
        f"'databricks.warehouse_id' = '{WAREHOUSE}', 'databricks.app_token' = '${{X_SECRET}}', "
        f"'databricks.cloud.s3.bucket' = 's3://lake', 'aws.endpoint_url' = '{bucket['endpoint_url']}', "
        "'aws.access_key_id' = '${X_KEY}', 'aws.secret_access_key' = '${X_KEY_SECRET}'"
    )
    keys = {"X_KEY": bucket["access_key_id"], "X_KEY_SECRET": bucket["secret_access_key"]}
    return store, "", {"X_SECRET": made.settings["app_token"], **keys}


STORES = {"postgres": _postgres, "delta": _delta, "snowflake": _snowflake, "databricks": _databricks}


@pytest.fixture(scope="module", params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    root = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        store, place, environment = STORES[request.param](stack, root)
        (root / "sql").mkdir()
        sql = f"CREATE STORE x WITH ({store});" + TABLES.replace("{place}", place).replace("{kind}", "TABLE")
        (root / "sql" / "all.sql").write_text(sql, encoding="utf-8")
        (root / "ds.toml").write_text('database = "d"\nstore = "x"\n', encoding="utf-8")
        made = Shop(request.param, root, environment)
        made.load("visits", _table(zip(*VISITS, strict=True), url=pa.string(), device=pa.string(), n=pa.int64()))
        users, totals, seconds = zip(*PAID, strict=True)
        columns = (users, totals, [moment(second) for second in seconds])
        made.load(
            "paid",
            _table(columns, userid=pa.string(), total=pa.decimal128(38, 2), latest=pa.timestamp("us", "UTC")),
        )
        made.load("things", _things(made.json_columns("things")))
        yield made


def _table(columns: Any, **types: pa.DataType) -> pa.Table:
    return pa.table(
        {name: pa.array(values, type_) for (name, type_), values in zip(types.items(), columns, strict=True)}
    )


def _things(as_json: Collection[str]) -> pa.Table:
    """Two rows, one of NULLs; nested values as the store's loader takes them."""
    values: dict[str, tuple[Any, pa.DataType]] = {
        "id": (1, pa.int64()), "ok": (True, pa.bool_()), "d": (2.5, pa.float64()),
        "m": (Decimal("1.25"), pa.decimal128(10, 2)), "da": (datetime(2024, 2, 29).date(), pa.date32()),  # noqa: DTZ001
        "ts": (datetime(2024, 2, 29, 12, 0, 0, 500_000), pa.timestamp("us")),  # noqa: DTZ001
        "tags": (["x", "y"], pa.list_(pa.string())),
        "place": ({"city": "Köln", "zip": 50667}, pa.struct({"city": pa.string(), "zip": pa.int32()})),
        "counts": ({"a": 1}, pa.map_(pa.string(), pa.int64())),
    }  # fmt: skip
    columns = {}
    for name, (value, type_) in values.items():
        written = json.dumps(value) if name in as_json else list(value.items()) if name == "counts" else value
        columns[name] = pa.array([written, 2 if name == "id" else None], pa.string() if name in as_json else type_)
    return pa.table(columns)


@pytest.fixture
def ask(shop: Shop, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    for name, value in shop.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ds_dagster.stores.snowflake.admin.QUESTION_SECONDS", snowflake_server.CALL_SECONDS)

    def call(text: str) -> Any:
        capfd.readouterr()
        code = run(["query", text, "--json", "--project", str(shop.root)])
        out, err = capfd.readouterr()
        assert code in (0, 1), err
        return json.loads(out)

    return call


@pytest.mark.parametrize("text", QUESTIONS)
def test_answers_as_another_engine_does(ask: Any, text: str) -> None:
    found = ask(text)
    assert "rows" in found, found
    names = [column["name"] for column in found["columns"]]
    rows = [tuple(row[name] for name in names) for row in found["rows"]]
    wanted = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in oracle(text)]
    if "ORDER BY" in text:
        assert rows == wanted
    else:
        assert Counter(rows) == Counter(wanted)


def test_times_and_decimals(ask: Any) -> None:
    rows = ask("SELECT userid, total, latest FROM paid WHERE latest < '2024-01-31 12:00:02' ORDER BY userid")["rows"]
    assert rows == [{"userid": "ann", "total": "10.50", "latest": "2024-01-31T12:00:01.250Z"}]
    text = "SELECT latest + INTERVAL '1' DAY AS later, EXTRACT(SECOND FROM latest) AS s FROM paid WHERE userid = 'cy'"
    assert ask(text)["rows"] == [{"later": "2024-02-01T12:00:03.250Z", "s": 3}]
    assert ask("SELECT sum(total) AS s, avg(total) AS a FROM paid")["rows"] == [{"s": "10.80", "a": "3.600000"}]


def test_functions_mean_what_the_dialect_says(ask: Any) -> None:
    text = """SELECT UPPER(url) AS a, SUBSTRING(url, 3) AS b, CHAR_LENGTH(url) AS c, url || '!' AS e,
      COALESCE(NULLIF(device, 'mobile'), 'phone') AS f, POSITION('h', url) AS g, MD5(url) AS h,
      CAST(n AS VARCHAR) AS j, GREATEST(n, 100) AS l, REPLACE(url, './', '') AS m, -n % 4 AS o, -n / 2 AS p,
      CAST(n + 0.75 AS BIGINT) AS q, ABS(-n) AS r, url || NULLIF(device, 'mobile') AS s, GREATEST(n, NULLIF(n, 7)) AS t
      FROM visits WHERE n = 7"""
    assert ask(text)["rows"] == [{
        "a": "./HOME", "b": "home", "c": 6, "e": "./home!", "f": "phone", "g": 3,
        "h": "00835b1c40edeed3d9c5e9b5ab3fef37", "j": "7", "l": 100, "m": "home", "o": -3, "p": -3, "q": 7, "r": 7,
        "s": None, "t": None,
    }]  # fmt: skip


def test_every_type_and_null(shop: Shop, ask: Any) -> None:
    plain = {"id": 1, "ok": True, "d": 2.5, "m": 1.25, "da": "2024-02-29", "ts": "2024-02-29T12:00:00.500"}
    nested = {"tags": ["x", "y"], "place": {"city": "Köln", "zip": 50667}, "counts": {"a": 1}}
    full, empty = ask("SELECT * FROM things ORDER BY id")["rows"]
    assert full == plain | nested
    if shop.kind == "snowflake":
        empty["ts"] = None  # the stand-in makes 1970 of it
    assert empty == {**dict.fromkeys(full), "id": 2}
    parts = ask(
        "SELECT place->city AS city, place->zip + 1 AS zip, tags[2] AS tag, tags[3] AS none, counts['a'] AS a "
        "FROM things WHERE id = 1"
    )
    assert parts["rows"] == [{"city": "Köln", "zip": 50668, "tag": "y", "none": None, "a": 1}]


def test_what_cannot_be_answered_is_named(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("SELECT * FROM missing")["diagnostics"][0]["condition"] == "TABLE_NOT_LOADED"
    from ds_dagster.questions import tables

    with monkeypatch.context() as limited:
        limited.setattr(tables.read_tables, "__defaults__", (4,))
        (diagnostic,) = ask("SELECT url, n FROM visits WHERE n > 1")["diagnostics"]
        assert diagnostic["condition"] == "QUESTION_TOO_LARGE", diagnostic
        assert "has 4 rows that the question needs, 2 rows" in diagnostic["message"]
        assert ask("SELECT url, n FROM visits WHERE n > 1 AND url = './cart'")["rows"] == [{"url": "./cart", "n": 2}]
        assert len(ask("SELECT url, n FROM visits WHERE n > 1 LIMIT 2")["rows"]) == 2
    wrong = ask("SELECT CAST(url AS INTEGER) AS n FROM visits WHERE n = 7")
    assert wrong["diagnostics"][0]["condition"] == "QUESTION_FAILED", wrong


VIEWS = """
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('store' = 'kafka', 'topic' = 'clicks', 'value.format' = 'json',
  'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE MATERIALIZED VIEW url_counts AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;
CREATE MATERIALIZED VIEW recent WITH ('retention.millis' = 3600000) AS
  SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;
"""


def test_views_stand_in_the_store_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        store, _, environment = _postgres(stack, tmp_path)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "sql").mkdir()
        (tmp_path / "sql" / "all.sql").write_text(f"CREATE STORE x WITH ({store});{VIEWS}", encoding="utf-8")
        (tmp_path / "ds.toml").write_text('database = "d"\nstore = "kafka"\nviews = "x"\n', encoding="utf-8")
        shop = Shop("postgres", tmp_path, environment)
        shop.load("url_counts", pa.table({"url": ["./a", None], "n": [2, 1], "__deleted": [False, False]}))
        text = "SELECT url, n * 2 AS n FROM url_counts ORDER BY n"
        assert run(["query", text, "--json", "--project", str(tmp_path)]) == 0
        out, err = capfd.readouterr()
        assert json.loads(out)["rows"] == [{"url": None, "n": 2}, {"url": "./a", "n": 4}]
        assert re.search(r"url_counts is not running: its rows are from \d{4}-\d\d-\d\d", err)
        assert run(["print", "url_counts", "--project", str(tmp_path)]) == 0
        assert '{"url":"./a"} | {"url":"./a","n":2}' in capfd.readouterr()[0].splitlines()
        _check_ages(shop, capfd)


def _check_ages(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows of a view are shown until their time, by the server's clock, whether somebody has deleted them or not."""
    shop.load("recent", pa.table({"url": ["./a", "./b"], "n": [2, 1], "__deleted": [False, False]}))
    spec = shop.spec("recent")
    address = PostgresAddress.of("x", {n: resolve(v, shop.environment, "store x") for n, v in spec.options.items()})
    with closing(address.control()) as connection, connection, connection.cursor() as cursor:
        cursor.execute("UPDATE recent SET __changed_at = __changed_at - interval '1 hour' WHERE url = './a'")
    assert run(["query", "SELECT * FROM recent", "--json", "--project", str(shop.root)]) == 0
    assert json.loads(capfd.readouterr()[0])["rows"] == [{"url": "./b", "n": 1}]
