"""Entity statements of ``ds sql`` on real servers: from nothing to a topic, records, generated columns and a query."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.cli.main import run
from ds_dagster.cli.shell import queries as sql_queries
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.stores.postgres.connection import PostgresAddress
from tests.avro_registry import AvroRegistry
from tests.conftest import lend
from tests.protobuf_files import proto_file, text_of

pytestmark = pytest.mark.servers
STORES = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'us-east-2');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/postgres', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE SCHEMA_REGISTRY reg WITH ('type' = CONFLUENT, 'uris' = 'https://schemas.example.com');
CREATE STORE described WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'schema_registry.name' = reg);
"""
AVRO = """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},
  {"name": "note", "type": ["null", "string"], "default": null},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "either", "type": ["long", "string"]}]}"""
JSON_SCHEMA = """{"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array",
  "items": {"type": "string"}}, "whatever": {}}}"""
Sql = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def registry() -> Iterator[AvroRegistry]:
    with AvroRegistry() as made:
        yield made


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, registry: AvroRegistry, local_servers: Callable[..., LocalAddresses]
) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "sql").mkdir()
    (folder / "sql" / "stores.sql").write_text(STORES, encoding="utf-8")
    (folder / "ds.toml").write_text('store = "k"\ndatabase = "shop"\n', encoding="utf-8")
    lend(folder, local_servers("kafka", "kinesis", "postgres"))
    with (folder / ".ds" / "local.toml").open("a") as overlay:
        overlay.write(f'\n[stores.reg]\nuris = "{registry.url}"\n')
    return folder


@pytest.fixture
def sql(root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sql:
    monkeypatch.delenv("DS_PROFILE", raising=False)

    def call(text: str) -> list[dict[str, Any]]:
        capfd.readouterr()
        run(["sql", "--json", "--project", str(root), "-c", text])
        return [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    return call


@pytest.fixture
def name() -> str:
    return f"e_{uuid.uuid4().hex[:8]}"


def refused(lines: list[dict[str, Any]]) -> str:
    assert lines[-1]["ok"] is False
    return str(lines[-1]["diagnostics"][0]["condition"])


def test_a_topic_from_nothing_to_a_query(sql: Sql, root: Path, name: str) -> None:
    (made,) = sql(f"CREATE ENTITY {name} WITH ('kafka.partitions' = 1, 'kafka.topic.retention.ms' = '600000')")
    assert (made["kind"], made["type"], made["path"]) == ("CREATE_ENTITY", "entity", [name])
    assert name in [row["name"] for row in sql("LIST ENTITIES")[0]["rows"]]
    assert refused(sql(f"CREATE ENTITY {name}")) == "ENTITY_EXISTS"
    assert refused(sql(f"GENERATE COLUMNS ENTITY {name}")) == "NOTHING_TO_SAMPLE"
    for number in range(3):
        place = {"city": "Köln", "zip": number} if number else {"city": None}
        value = json.dumps({"userId": f"u{number}", "n": number, "place": place}, ensure_ascii=False)
        (put,) = sql(f"INSERT INTO ENTITY {name} VALUE('{value}') WITH ('key' = 'u{number}')")
        assert put["position"] == f"0/{number}"
    printed = sql(f"PRINT TOPIC {name} WITH ('from_beginning', 'limit' = 3)")
    assert [(line["key"], line["value"]["n"]) for line in printed] == [("u0", 0), ("u1", 1), ("u2", 2)]
    (described,) = sql(f"DESCRIBE ENTITY {name}")
    assert (described["size"], described["newest"], described["topic.partitions"]) == (3, {"0": "2"}, 1)
    assert described["settings"]["retention.ms"] == "600000"
    (generated,) = sql(f"GENERATE COLUMNS ENTITY {name}")
    assert generated["ddl"] == (
        f'CREATE STREAM {name} (\n  "userId" VARCHAR,\n  n BIGINT,\n  place STRUCT<city VARCHAR, zip BIGINT>\n'
        f") WITH ('store' = 'k', 'topic' = '{name}', 'value.format' = 'json', 'key.format' = 'primitive', "
        "'key.columns' = '\"userId\"');"
    )
    assert sql(f"DESCRIBE {generated['ddl']}")[0]["rows"][0]["kind"] == "CREATE_STREAM"
    (root / "sql" / "pasted.sql").write_text(generated["ddl"], encoding="utf-8")
    rows = [line["row"] for line in sql(f"SELECT n, place->zip AS zip FROM {name} LIMIT 3")]
    assert rows == [{"n": 0, "zip": None}, {"n": 1, "zip": 1}, {"n": 2, "zip": 2}]
    assert sql(f"DESCRIBE ENTITY {name}")[0]["relations"] == [f"shop.public.{name}"]
    (updated,) = sql(f"UPDATE ENTITY {name} WITH ('kafka.partitions' = 2)")
    assert updated["kind"] == "UPDATE_ENTITY"
    assert refused(sql(f"UPDATE ENTITY {name} WITH ('kafka.partitions' = 1)")) == "ENTITY_NOT_CHANGED"
    _, stop = sql(f"DROP ENTITY {name}; DESCRIBE ENTITY {name}")
    assert refused([stop]) == "ENTITY_NOT_FOUND"
    (root / "sql" / "pasted.sql").unlink()


def test_a_changelog_gets_no_more_partitions(sql: Sql, root: Path, name: str) -> None:
    sql(f"CREATE ENTITY {name} WITH ('kafka.partitions' = 1)")
    place = root / "sql" / "changes.sql"
    place.write_text(
        f"CREATE CHANGELOG c_{name} (k VARCHAR, n BIGINT, PRIMARY KEY (k)) "
        f"WITH ('store' = 'k', 'topic' = '{name}', 'value.format' = 'json');",
        encoding="utf-8",
    )
    assert refused(sql(f"UPDATE ENTITY {name} WITH ('kafka.partitions' = 2)")) == "ENTITY_PARTITIONS_OF_CHANGELOG"
    (same,) = sql(f"UPDATE ENTITY {name} WITH ('kafka.partitions' = 1)")
    assert same["kind"] == "UPDATE_ENTITY"
    place.unlink()


def test_deletes_make_a_changelog(sql: Sql, name: str) -> None:
    sql(f"CREATE ENTITY {name} WITH ('kafka.partitions' = 1)")
    for value, key in (('{"id": 1, "v": 2.5}', '{"id": 1}'), ('{"id": 2, "v": "x", "w": null}', '{"id": 2}')):
        sql(f"INSERT INTO ENTITY {name} VALUE('{value}') WITH ('key' = '{key}')")
    sql(f"INSERT INTO ENTITY {name} VALUE(NULL) WITH ('key' = '{{\"id\": 1}}')")
    (generated,) = sql(f"GENERATE COLUMNS FOR ENTITY {name} WITH ('samples' = 10)")
    assert generated["ddl"].splitlines() == [
        f"CREATE CHANGELOG {name} (",
        "  id BIGINT,",
        "  v VARCHAR,  -- values of several kinds",
        "  w VARCHAR,  -- in 1 of 2, NULL in 1, no value was seen",
        "  PRIMARY KEY (id)",
        f") WITH ('store' = 'k', 'topic' = '{name}', 'value.format' = 'json', 'key.format' = 'json');",
    ]
    assert (generated["source"], generated["records"]) == ("samples", 3)
    assert sql(f"DESCRIBE {generated['ddl']}")[0]["rows"][0]["kind"] == "CREATE_CHANGELOG"


def test_a_kinesis_stream(sql: Sql, name: str) -> None:
    assert refused(sql(f"CREATE ENTITY {name} IN STORE n")) == "ENTITY_MISSING"
    lines = sql(
        f"USE STORE n; CREATE ENTITY {name} WITH ('kinesis.shards' = 2); "
        f"INSERT INTO ENTITY {name} VALUE('{{\"a\": [1]}}') WITH ('key' = 'k'); "
        f"PRINT ENTITY {name} WITH ('from_beginning', 'limit' = 1); GENERATE COLUMNS ENTITY {name}; DROP ENTITY {name}"
    )
    kinds = ["USE", "CREATE_ENTITY", "INSERT_INTO_ENTITY", "RECORD", "GENERATE_COLUMNS", "DROP_ENTITY"]
    assert [line["kind"] for line in lines] == kinds
    assert (lines[3]["key"], lines[3]["value"]) == ("k", {"a": [1]})
    assert "a ARRAY<BIGINT>" in lines[4]["ddl"]
    assert sql(f"DESCRIBE {lines[4]['ddl']}")[0]["rows"][0]["kind"] == "CREATE_STREAM"


PROTOBUF = {"Order": ["int64 id = 1", "optional string note = 2", "repeated double prices = 3"]}


@pytest.mark.parametrize(
    ("type_", "format_", "columns", "without"),
    [
        ("AVRO", "avro", ["id BIGINT", "note VARCHAR", "at TIMESTAMP_LTZ(3)", "either VARCHAR"], ["either"]),
        ("PROTOBUF", "protobuf", ["id BIGINT", "note VARCHAR", "prices ARRAY<DOUBLE>"], []),
        ("JSON", "json_schema", ["id BIGINT", "tags ARRAY<VARCHAR>", "whatever VARCHAR"], ["whatever"]),
    ],
)
def test_columns_of_a_registered_schema(
    type_: str, format_: str, columns: list[str], without: list[str], sql: Sql, name: str, registry: AvroRegistry
) -> None:
    schema = {"AVRO": AVRO, "PROTOBUF": text_of(proto_file("order.proto", PROTOBUF)), "JSON": JSON_SCHEMA}[type_]
    registry.register(f"{name}-value", schema, **({} if type_ == "AVRO" else {"schemaType": type_}))
    sql(f"CREATE ENTITY {name} IN STORE described WITH ('kafka.partitions' = 1)")
    (generated,) = sql(f"GENERATE COLUMNS ENTITY {name} IN STORE described")
    first, *lines, last = generated["ddl"].splitlines()
    assert (generated["source"], first) == ("registry", f"CREATE STREAM {name} (")
    assert last == f") WITH ('store' = 'described', 'topic' = '{name}', 'value.format' = '{format_}');"
    assert [line.partition("  --")[0].strip().rstrip(",") for line in lines] == columns
    assert [line.split()[0] for line in lines if line.endswith("no SQL type holds it")] == without
    assert sql(f"DESCRIBE {generated['ddl']}")[0]["rows"][0]["kind"] == "CREATE_STREAM"


def test_a_schema_without_fields_is_left_to_the_samples(sql: Sql, name: str, registry: AvroRegistry) -> None:
    registry.register(f"{name}-value", '"string"')
    sql(f"CREATE ENTITY {name} IN STORE described WITH ('kafka.partitions' = 1)")
    assert refused(sql(f"GENERATE COLUMNS ENTITY {name} IN STORE described")) == "NOTHING_TO_SAMPLE"
    sql(f"INSERT INTO ENTITY {name} IN STORE described VALUE('{{\"id\": 1}}')")
    assert sql(f"GENERATE COLUMNS ENTITY {name} IN STORE described")[0]["source"] == "samples"


def test_tables_of_postgres(sql: Sql, root: Path, name: str) -> None:
    database = "postgres"
    assert database in [row["name"] for row in sql("LIST ENTITIES IN STORE pg")[0]["rows"]]
    sql(f'CREATE ENTITY {database}."{name}" IN STORE pg')
    project = load_project(root)
    settings = project.catalog.store("pg").properties
    from ds_dagster.runtime.connecting import resolver

    resolve = resolver(project.settings, "pg")
    address = PostgresAddress(
        "pg", resolve(settings["uris"]), resolve(settings["postgres.username"]), resolve(settings["postgres.password"])
    )
    connection = address.control()
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE TABLE "{name}".visits (url text PRIMARY KEY, "When" timestamptz, tags integer[])')
    connection.close()
    path = f'{database}."{name}".visits'
    sql(f'INSERT INTO ENTITY {path} IN STORE pg VALUE(\'{{"url": "./a", "tags": [1, 2]}}\')')
    (printed,) = sql(f"PRINT ENTITY {path} IN STORE pg")
    assert printed == {"kind": "ROW", "value": {"url": "./a", "When": None, "tags": [1, 2]}}
    assert refused(sql(f'INSERT INTO ENTITY {path} IN STORE pg VALUE(\'{{"url": "./a"}}\')')) == "ENTITY_RECORD_INVALID"
    (generated,) = sql(f"GENERATE COLUMNS ENTITY {path} IN STORE pg")
    assert generated["ddl"].splitlines() == [
        "CREATE TABLE visits (",
        "  url VARCHAR NOT NULL,  -- text",
        '  "When" TIMESTAMP_LTZ,  -- timestamp with time zone',
        "  tags ARRAY<INTEGER>,  -- integer[]",
        "  PRIMARY KEY (url)",
        f") WITH ('store' = 'pg', 'postgresql.schema.name' = '{name}', 'postgresql.table.name' = 'visits');",
    ]
    assert sql(f"DESCRIBE {generated['ddl']}")[0]["rows"][0]["kind"] == "CREATE_TABLE"
    assert refused(sql(f'DROP ENTITY {database}."{name}" IN STORE pg')) == "ENTITY_STATEMENT_REFUSED", "not empty"
    sql(f'DROP ENTITY {path} IN STORE pg; DROP ENTITY {database}."{name}" IN STORE pg')
    assert name not in [row["name"] for row in sql(f"LIST ENTITIES IN {database} IN STORE pg")[0]["rows"]]


def test_what_queries_use_is_kept(sql: Sql, root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""CREATE STREAM {name} (x BIGINT) WITH ('topic' = '{name}', 'value.format' = 'json',
      'topic.partitions' = 1, 'topic.replicas' = 1);
    CREATE STREAM {name}_2 AS SELECT x FROM {name};"""
    (root / "sql" / "used.sql").write_text(text, encoding="utf-8")
    sql(f"CREATE ENTITY {name} WITH ('kafka.partitions' = 1)")
    assert sql(f"DESCRIBE ENTITY {name}")[0]["relations"] == [f"shop.public.{name}"]
    project = load_project(root)
    control = Control.open(project.settings)
    control.ensure(project, [f"{name}_2"], requested_by="test")
    assert refused(sql(f"DROP ENTITY {name}")) == "ENTITY_IN_USE"
    monkeypatch.setattr(sql_queries, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(Control, "ensure_engines", lambda *_: None)  # an engine that never comes up
    assert refused(sql(f"RESTART QUERY {name}_2")) == "QUERY_NOT_SETTLED"
    (told,) = sql(f"TERMINATE QUERY {name}_2")
    assert (told["kind"], told["state"]) == ("TERMINATE_QUERY", "STOPPED")
    assert [line["kind"] for line in sql(f"DROP ENTITY {name}")] == ["DROP_ENTITY"]
    (root / "sql" / "used.sql").unlink()
