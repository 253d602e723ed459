"""``ds sql``: what its statements answer, shapes of JSON lines, exit codes, what belongs into files instead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ds, Outcome, ViewWriter
from tests.protobuf_files import descriptor_set, proto_file


def lines(found: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.out.splitlines()]


def rows(ds: Ds, statement: str) -> list[dict[str, Any]]:
    found = ds("sql", "--json", "-c", statement)
    assert found.code == 0, found.out
    (line,) = lines(found)
    assert [column["name"] for column in line["columns"]] == list(line["rows"][0]) if line["rows"] else True
    return list(line["rows"])


def refused(ds: Ds, statement: str) -> dict[str, Any]:
    found = ds("sql", "--json", "-c", statement)
    assert found.code == 1
    last = lines(found)[-1]
    assert last["ok"] is False
    return dict(last["diagnostics"][0])


def test_lists(ds: Ds) -> None:
    assert [(row["name"], row["type"], row["current"]) for row in rows(ds, "LIST STORES;")] == [
        ("kafka", "KAFKA", True),
        ("warehouse", "POSTGRESQL", False),
        ("sqlite", "SQLITE", False),
    ]
    relations = {row["name"]: row for row in rows(ds, "SHOW RELATIONS")}
    assert relations["d.public.visits"]["filled_by"] == "visits"
    assert relations["d.public.users"]["primary_key"] == "userid"
    assert len(rows(ds, "LIST RELATIONS IN SCHEMA d.public")) == len(relations)
    assert rows(ds, "LIST RELATIONS IN SCHEMA d.other") == []
    assert rows(ds, "LIST DATABASES") == [{"name": "d", "current": True}]
    assert rows(ds, "LIST SCHEMAS IN DATABASE d") == [{"database": "d", "name": "public", "current": True}]
    queries = {row["name"]: row for row in rows(ds, "LIST QUERIES")}
    assert queries["visits"]["actual_state"] == "ABSENT"
    assert {"COUNT", "UPPER"} <= {row["name"] for row in rows(ds, "LIST FUNCTIONS")}
    assert rows(ds, "LIST SCHEMA_REGISTRIES") == []


def test_lists_for_people_have_headers_even_when_empty(ds: Ds) -> None:
    found = ds("sql", "-c", "LIST ENTITIES IN STORE sqlite")
    assert (found.code, found.out) == (0, "NAME  TYPE  IS_LEVEL  PATH\n")
    assert "0 rows" in found.err


def test_describes(ds: Ds) -> None:
    (found,) = lines(ds("sql", "--json", "-c", "DESCRIBE RELATION visits"))
    assert found["kind"] == "DESCRIBE_RELATION"
    assert (found["fqn"], found["queries"], found["columns"][2]) == (
        "d.public.visits",
        ["visits"],
        {"name": "n", "type": "BIGINT", "nullable": False, "primary_key": False},
    )
    columns = rows(ds, "DESCRIBE RELATION COLUMNS users")
    assert [column["name"] for column in columns if column["primary_key"]] == ["userid"]
    (store,) = lines(ds("sql", "--json", "-c", "DESCRIBE STORE warehouse"))
    assert (store["status"], store["type"]) == ("errored", "POSTGRESQL")
    assert {"name": "postgres.password", "value": "${PASSWORD}"} in store["properties"], "secrets are not shown"
    (query,) = lines(ds("sql", "--json", "-c", "DESCRIBE QUERY visits"))
    assert (query["state"], query["relation"]) == ("ABSENT", "d.public.visits")
    assert rows(ds, "DESCRIBE QUERY EVENTS visits") == []
    for part in ("METRICS", "STATE"):
        (told,) = lines(ds("sql", "--json", "-c", f"DESCRIBE QUERY {part} visits"))
        assert told["kind"] == f"DESCRIBE_QUERY_{part}"


def test_a_store_whose_secret_is_not_set_is_shown_as_errored(ds: Ds, project: Path) -> None:
    files = project / "sql" / "all.sql"
    files.write_text(files.read_text().replace("${PASSWORD:-none}", "${PASSWORD_NOT_SET}"))
    (store,) = lines(ds("sql", "--json", "-c", "DESCRIBE STORE warehouse"))
    assert (store["status"], store["type"]) == ("errored", "POSTGRESQL")
    assert "PASSWORD_NOT_SET" in store["status_message"] and store["hint"]


def test_describe_statement_tells_sink_and_sources(ds: Ds) -> None:
    join = "CREATE STREAM both AS SELECT c.url, u.region FROM clicks c JOIN users u ON u.userid = c.userid"
    (row,) = rows(ds, f"DESCRIBE {join}")
    assert row["kind"] == "CREATE_STREAM"
    assert [source["fqn"] for source in row["json"]["sources"]] == ["d.public.clicks", "d.public.users"]
    assert row["json"]["sink"] == {
        "fqn": "d.public.both",
        "type": "stream",
        "db_name": "d",
        "schema_name": "public",
        "name": "both",
        "store_name": "kafka",
        "is_virtual": False,
    }
    assert row["json"]["ddl"].startswith("CREATE STREAM d.public.both (url VARCHAR, region VARCHAR)")
    (again,) = rows(
        ds, "DESCRIBE CREATE MATERIALIZED VIEW visits AS SELECT url, count(*) AS n FROM clicks GROUP BY url"
    )
    assert again["json"]["sink"]["name"] == "visits", "a statement that is in a file already is replaced"
    (made,) = rows(ds, "DESCRIBE CREATE DATABASE other")
    assert (made["kind"], made["json"]["sink"]) == ("CREATE_DATABASE", None)
    assert refused(ds, "DESCRIBE CREATE STREAM x AS SELECT nothing FROM clicks")["condition"] == "UNKNOWN_COLUMN"


APPLICATION = """BEGIN APPLICATION shop
  CREATE VIRTUAL STREAM mobile AS SELECT url, userid FROM clicks WHERE device = 'mobile';
  USE STORE kafka;
  CREATE STREAM home AS SELECT url, userid FROM mobile WHERE url = './home';
  CREATE CHANGELOG per_url AS SELECT url, count(*) AS n FROM mobile GROUP BY url;
END APPLICATION"""


def test_describe_application_tells_all_it_makes_and_touches(ds: Ds, project: Path) -> None:
    (row,) = rows(ds, f"DESCRIBE {APPLICATION};")
    found = row["json"]
    assert row["kind"] == "APPLICATION"
    assert [(one["fqn"], one["type"], one["is_virtual"], one["store_name"]) for one in found["ddls"]] == [
        ("d.public.mobile", "stream", True, None),
        ("d.public.home", "stream", False, "kafka"),
        ("d.public.per_url", "changelog", False, "kafka"),
    ]
    assert [one["fqn"] for one in found["sources"]] == ["d.public.clicks"]
    assert [one["fqn"] for one in found["sinks"]] == ["d.public.home", "d.public.per_url"]
    assert [(one["kind"], one["sink"]["name"], [s["name"] for s in one["sources"]]) for one in found["statements"]] == [
        ("CREATE_STREAM", "home", ["clicks"]),
        ("CREATE_CHANGELOG", "per_url", ["clicks"]),
    ]
    assert found["statements"][0]["ddl"].startswith("CREATE STREAM d.public.home (url VARCHAR, userid VARCHAR)")
    (project / "sql" / "app.sql").write_text(APPLICATION + ";")
    (again,) = rows(ds, f"DESCRIBE {APPLICATION.replace('./home', './cart')}")
    assert again["json"]["sinks"] == found["sinks"], "one that is in a file already is replaced"


def test_describe_application_reads_what_stands_around_it(ds: Ds) -> None:
    found = ds("sql", "--json", "-c", f"USE DATABASE d; DESCRIBE {APPLICATION}; DESCRIBE RELATION visits;")
    assert [line["kind"] for line in lines(found)] == ["USE", "DESCRIBE", "DESCRIBE_RELATION"]
    wrong = refused(ds, f"DESCRIBE {APPLICATION.replace('count(*)', 'count(nothing)')}")
    assert (wrong["condition"], wrong["line"]) == ("UNKNOWN_COLUMN", 5)
    assert refused(ds, f"DESCRIBE {APPLICATION[:-16]}")["condition"] == "APPLICATION_WITHOUT_END"
    assert refused(ds, APPLICATION)["condition"] == "DEFINITION_IN_SHELL"


def test_select_answers_from_views(ds: Ds, views: ViewWriter) -> None:
    views.write("visits", {"url": ["./a", "./b"], "device": ["m", "m"], "n": [3, 4]})
    assert rows(ds, "SELECT url, n FROM visits WHERE n > 3") == [{"url": "./b", "n": 4}]
    (entity,) = rows(ds, "LIST ENTITIES IN d.public IN STORE sqlite")
    assert (entity["path"], entity["type"]) == (["d", "public", "visits"], "view")
    (told,) = lines(ds("sql", "--json", "-c", "DESCRIBE ENTITY d.public.visits IN STORE sqlite"))
    assert (told["size"], told["relations"]) == (2, ["d.public.visits"])
    assert [column["name"] for column in told["columns"] if column["primary_key"]] == ["url", "device"]
    printed = lines(ds("sql", "--json", "-c", "PRINT ENTITY d.public.visits IN STORE sqlite WITH ('limit' = 1)"))
    assert [line["kind"] for line in printed] == ["ROW"]
    columns = refused(ds, "GENERATE COLUMNS FOR ENTITY d.public.visits IN STORE sqlite")
    assert columns["condition"] == "ENTITY_STATEMENT_REFUSED"


def test_ls_entities_tells_the_same(ds: Ds, views: ViewWriter) -> None:
    views.write("visits", {"url": ["./a"], "device": ["m"], "n": [3]})
    levels = ds("ls", "entities", "sqlite", "d", "--json").json
    assert levels == [{"name": "public", "kind": "schema"}]
    (row,) = ds("ls", "entities", "sqlite", "d", "public", "--details", "--json").json
    (described,) = lines(ds("sql", "--json", "-c", "DESCRIBE ENTITY d.public.visits IN STORE sqlite"))
    assert (row["name"], row["size"], row["bytes"]) == ("visits", described["size"], described["bytes"])
    assert row["relations"] == described["relations"] == ["d.public.visits"]
    assert row["schema_fingerprint"].startswith("1:")
    assert [found["name"] for found in ds("ls", "entities", "sqlite", "--json").json] == ["d.public.visits"]


def test_use_holds_for_the_script(ds: Ds, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "-- two stores\nUSE STORE warehouse; LIST STORES;\nUSE DATABASE d; LIST SCHEMAS;", encoding="utf-8"
    )
    used, stores, *_ = lines(ds("sql", "--json", str(script)))
    assert used == {"kind": "USE", "type": "store", "name": "warehouse", "summary": "store warehouse is used now"}
    assert [row["name"] for row in stores["rows"] if row["current"]] == ["warehouse"]
    for statement, condition in (
        ("USE STORE nothing", "UNKNOWN_STORE"),
        ("USE DATABASE nothing", "UNKNOWN_DATABASE"),
        ("USE SCHEMA nothing", "UNKNOWN_SCHEMA"),
    ):
        assert refused(ds, statement)["condition"] == condition


def test_a_script_ends_at_its_first_mistake(ds: Ds) -> None:
    found = ds("sql", "--json", "-c", "LIST DATABASES; LIST STORS; LIST STORES")
    assert found.code == 1
    assert [line.get("kind", "failed") for line in lines(found)] == ["LIST_DATABASES", "failed"]
    assert lines(found)[-1]["diagnostics"][0]["column"] == 22
    people = ds("sql", "-c", "LIST DATABASES; SELECT nothing FROM clicks")
    assert people.code == 1
    assert people.out.startswith("NAME")
    assert "^" in people.err, "the place is shown"


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("CREATE STREAM s AS SELECT url FROM clicks", "DEFINITION_IN_SHELL"),
        ("CREATE STORE s WITH ('type' = MEMORY)", "DEFINITION_IN_SHELL"),
        ("INSERT INTO clicks SELECT * FROM clicks", "DEFINITION_IN_SHELL"),
        ("DROP STREAM clicks", "DEFINITION_IN_SHELL"),
        ("DROP FUNCTION twice(INTEGER)", "DEFINITION_IN_SHELL"),
        (
            "CREATE FUNCTION twice(n INTEGER) RETURNS INTEGER LANGUAGE PYTHON WITH ('module' = 'm')",
            "DEFINITION_IN_SHELL",
        ),
        ("LIST STORS", "LIST_UNKNOWN"),
        ("LIST ROLES", "HOSTED_ROLES"),
        ("PRINT TOPIC t WITH ('beginning')", "OPTION_UNKNOWN"),
        ("INSERT INTO ENTITY t VALUE(1)", "SYNTAX_EXPECTED"),
        ("GENERATE COLUMNS ENTITY t WITH ('samples' = 0)", "PROPERTY_INVALID"),
        ("DESCRIBE QUERY nothing", "JOB_UNKNOWN"),
        ("TERMINATE QUERY nothing", "JOB_UNKNOWN"),
        ("DESCRIBE nothing", "UNKNOWN_RELATION"),
        ("DESCRIBE ENTITY a.b.c IN STORE sqlite", "ENTITY_NOT_FOUND"),
        ("CREATE ENTITY a IN STORE sqlite", "ENTITY_STATEMENT_REFUSED"),
        ("CREATE ENTITY a WITH ('topic.shards' = 1)", "PROPERTY_OF_OTHER_STORE"),
        ("CREATE ENTITY a WITH ('nothing' = 1)", "UNKNOWN_PROPERTY"),
        ("SELECT 'never closed FROM clicks", "SYNTAX_UNTERMINATED"),
    ],
)
def test_what_cannot_be_done_is_refused(ds: Ds, statement: str, condition: str) -> None:
    found = refused(ds, statement)
    assert (found["condition"], bool(found["hint"])) == (condition, True)


@pytest.mark.parametrize(
    ("statement", "instead"),
    [("SHOW TABLES", "RELATIONS"), ("SHOW TOPICS", "ENTITIES"), ("SHOW JOBS", "QUERIES"), ("LIST STORS", "STORES")],
)
def test_other_systems_words_lead_to_ours(ds: Ds, statement: str, instead: str) -> None:
    assert re.match(rf"did you mean {instead}[?,]", refused(ds, statement)["hint"])


def test_a_store_has_to_be_chosen(ds: Ds, project: Path) -> None:
    (project / "ds.toml").write_text('database = "d"\n', encoding="utf-8")
    assert refused(ds, "LIST ENTITIES")["condition"] == "STORE_NOT_CHOSEN"


def test_usage(ds: Ds, tmp_path: Path) -> None:
    assert ds("sql", "x.sql", "-c", "LIST STORES").code == 2
    assert ds("sql", str(tmp_path / "none.sql"), "--json").conditions == ["SQL_FILE_UNREADABLE"]


def test_standard_input(ds: Ds, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("LIST DATABASES;"))
    assert [line["kind"] for line in lines(ds("sql", "--json"))] == ["LIST_DATABASES"]


def test_records_that_are_no_json_are_not_put_in(ds: Ds, project: Path) -> None:
    text = """CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://localhost:1');
    CREATE STORE ka WITH ('type' = KAFKA, 'uris' = 'localhost:1', 'schema_registry.name' = r);
    CREATE STREAM coded (x BIGINT) WITH ('store' = 'ka', 'topic' = 'coded', 'value.format' = 'avro',
      'topic.partitions' = 1, 'topic.replicas' = 1);"""
    (project / "sql" / "avro.sql").write_text(text, encoding="utf-8")
    assert refused(ds, "INSERT INTO ENTITY coded IN STORE ka VALUE('{}')")["condition"] == "ENTITY_INSERT_FORMAT"
    assert [(row["name"], row["stores"]) for row in rows(ds, "LIST SCHEMA_REGISTRIES")] == [("r", "ka")]


def test_compute_pools_are_listed_with_their_engines_and_queries(ds: Ds, project: Path) -> None:
    text = """CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 3, 'compute_pool.memory' = '2g');
    CREATE COMPUTE_POOL idle;
    CREATE STREAM moved AS SELECT * FROM clicks QUERY WITH ('compute_pool' = 'heavy');"""
    (project / "sql" / "pools.sql").write_text(text, encoding="utf-8")
    heavy, idle = rows(ds, "LIST COMPUTE_POOLS")
    assert heavy == {"name": "heavy", "cores": 3, "memory": "2g", "engine": "GONE", "queries": "moved"}
    assert (idle["name"], idle["queries"]) == ("idle", None)


def test_secrets_and_descriptors_are_listed_and_no_value_is(ds: Ds, project: Path) -> None:
    file = proto_file("shop.proto", {"Order": ["int64 id = 1"], "Item": ["int64 n = 1"]})
    (project / "shop.desc").write_bytes(descriptor_set(file))
    text = """CREATE SECRET hidden
      WITH ('type' = generic_string, 'secret_string' = 'hunter2', 'description' = 'for tests');
    CREATE DESCRIPTOR_SOURCE shop WITH ('file' = '@shop.desc');"""
    (project / "sql" / "more.sql").write_text(text, encoding="utf-8")
    assert rows(ds, "LIST SECRETS") == [{"name": "hidden", "type": "generic_string", "description": "for tests"}]
    assert rows(ds, "LIST DESCRIPTOR_SOURCES") == [{"name": "shop", "file": "@shop.desc", "descriptors": 2}]
    assert [(row["name"], row["source"]) for row in rows(ds, "LIST DESCRIPTORS")] == [
        ("shop.Order", "shop"),
        ("shop.Item", "shop"),
    ]
    assert "hunter2" not in ds("sql", "--json", "-c", "LIST SECRETS").out
