"""``ds up``, ``print`` and ``query`` against real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ds_dagster import local
from ds_dagster.cli.main import run
from ds_dagster.demo import data
from ds_dagster.demo.example import copy_example, example_source
from ds_dagster.demo.feeding import Feeder
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store, load_project, store_admin
from ds_dagster.runtime.connecting import resolver

pytestmark = pytest.mark.servers
CLICKS = 40


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The example project on local servers with the demo's records in its sources."""
    root = copy_example(example_source(), tmp_path_factory.mktemp("example"))
    try:
        addresses = local.up(root / ".ds")
        project = load_project(root, strict=True)
        for name in ("clicks", "users", "pageviews_kinesis", "users_kafka"):
            relation = project.catalog.relation(QualifiedName("clickstream_db", "public", name))
            admin = store_admin(project, relation.store, resolver(project.settings, relation.store))
            admin.ensure(kind_of_store(project, relation).entity_plan(relation))
            admin.close()
        with Feeder(addresses) as feeder:
            for phase in data.phases(CLICKS):
                feeder.send(phase.changes)
                feeder.send(phase.events)
        yield root
    finally:
        local.down(root / ".ds")


@pytest.fixture
def ds(example: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([arguments[0], "--project", str(example), *arguments[1:]])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def fed(entity: str) -> list[data.Out]:
    phases = list(data.phases(CLICKS))
    return [record for phase in phases for record in (*phase.changes, *phase.events) if record.entity == entity]


def values(lines: list[str]) -> list[tuple[str, str]]:
    """Key and value of each printed line; no key of the demo has a blank in it."""
    return [tuple(line.split(maxsplit=5)[-2:]) for line in lines]


def test_up_tells_addresses_as_json_and_is_idempotent(ds) -> None:
    code, out, _ = ds("up", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["kafka"]["bootstrap.servers"].startswith("127.0.0.1:")
    assert set(found["kinesis"]) == {"endpoint_url", "region"}
    assert found["postgres"]["url"].startswith("postgresql://postgres@127.0.0.1:")
    password = Path(found["postgres"]["password_file"]).read_text().strip()
    assert password not in out
    assert json.loads(ds("up", "--only", "kafka", "--json")[1]) == found


def test_doctor_asks_every_store(ds, example: Path) -> None:
    code, out, _ = ds("doctor", "--online", "--json")
    stores = [fact for fact in json.loads(out)["facts"] if fact["name"].startswith("store ")]
    asked = load_project(example).catalog.stores.values()
    assert {fact["name"] for fact in stores} == {f"store {store.name}" for store in asked}
    assert all(fact["ok"] for fact in stores), stores
    assert code == 0 or not json.loads(out)["ok"]


def test_print_kafka_from_the_beginning(ds) -> None:
    _, out, _ = ds("print", "clicks", "--from-beginning", "--limit", "1000")
    header, *lines = out.splitlines()
    assert header.split() == ["PARTITION", "OFFSET", "TIME", "(UTC)", "KEY", "VALUE"]
    assert sorted(values(lines)) == sorted(("null", data.compact(record.value)) for record in fed("clicks"))


def test_print_kinesis_shows_keys_and_deletes(ds) -> None:
    _, out, _ = ds("print", "users", "--from-beginning", "--limit", "1000")
    header, *lines = out.splitlines()
    assert header.split()[:4] == ["SHARD", "SEQUENCE", "NUMBER", "TIME"]
    wanted = [(r.key_text, "null" if r.value is None else data.compact(r.value)) for r in fed("users")]
    assert sorted(values(lines)) == sorted(wanted)


def test_print_an_entity_by_its_own_name_and_store(ds) -> None:
    first = ds("print", "ds_users", "--from-beginning", "--limit", "1")[1]
    assert first == ds("print", "ds_users", "--store", "MSK", "--from-beginning", "--limit", "1")[1]
    (row,) = first.splitlines()[1:]
    assert values([row])[0][0] == "null"


def test_print_one_key_and_one_shard(ds) -> None:
    _, out, _ = ds("print", "users", "--from-beginning", "--limit", "1000", "--key", "User_1", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == len([r for r in fed("users") if r.key_text == '{"userid":"User_1"}']) > 0
    shard = records[0]["partition"]
    of_shard = ds("print", "users", "--since", "1h", "--limit", "1000", "--shard", shard, "--json")[1].splitlines()
    assert {json.loads(line)["partition"] for line in of_shard} == {shard}


def test_print_json_has_one_object_per_record(ds) -> None:
    _, out, _ = ds("print", "users", "--from-beginning", "--limit", "2", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [set(line) for line in lines] == [{"partition", "position", "timestamp", "key", "value"}] * 2
    assert lines[0]["key"] == {"userid": "User_1"}


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (("print", "nothing"), "ENTITY_UNKNOWN"),
        (("print", "nothing", "--store", "MSK", "--limit", "1"), "ENTITY_ABSENT"),
        (("print", "clicks", "--partition", "99"), "PRINT_PARTITION_UNKNOWN"),
        (("print", "users", "--shard", "99"), "PRINT_PARTITION_UNKNOWN"),
        (("print", "url_visits", "--key", "a"), "PRINT_OPTION_OF_RECORDS"),
        (("print", "clicks", "--store", "nostore"), "UNKNOWN_STORE"),
        (("print", "desktop_clicks", "--limit", "1"), "ENTITY_ABSENT"),
        (("query", "SELECT * FROM desktop_clicks LIMIT 1"), "ENTITY_ABSENT"),
        (("query", "SELECT * FROM region_clicks"), "TABLE_NOT_LOADED"),
        (("query", "SELECT * FROM region_clicks r JOIN url_visits v ON r.click_url = v.url"), "TABLE_NOT_LOADED"),
    ],
)
def test_what_is_not_there_is_named(ds, arguments: tuple[str, ...], condition: str) -> None:
    code, out, _ = ds(*arguments, "--json")
    assert code == 1
    assert [d["condition"] for d in json.loads(out)["diagnostics"]] == [condition]


def test_query_a_stream_ends_where_it_ended_when_there_is_a_limit(ds) -> None:
    _, out, _ = ds("query", "SELECT userid, url FROM clicks WHERE device_id = 'desktop'", "--limit", "1000", "--json")
    found = json.loads(out)
    wanted = [r.value for r in fed("clicks") if r.value["device_id"] == "desktop"]
    assert found["columns"] == [{"name": "userid", "type": "VARCHAR"}, {"name": "url", "type": "VARCHAR"}]
    assert sorted((r["userid"], r["url"]) for r in found["rows"]) == sorted((r["userid"], r["url"]) for r in wanted)


def test_query_a_changelog_of_kinesis(ds) -> None:
    _, out, _ = ds("query", "SELECT userid, contactinfo->city AS city FROM users", "--limit", "1000")
    wanted = [
        f'- {{"userid":"{r.key["userid"]}","city":null}}' if r.value is None
        else f'+ {{"userid":"{r.key["userid"]}","city":"PII-City"}}'
        for r in fed("users")
    ]  # fmt: skip
    assert sorted(out.splitlines()) == sorted(wanted)


@pytest.mark.parametrize("arguments", [("print", "ds_users"), ("query", "SELECT userid FROM users_kafka")])
def test_following_shows_new_records_and_ends_with_ctrl_c(
    example: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    command = [str(Path(sys.executable).with_name("ds")), *arguments, "--project", str(example)]
    shown = tmp_path / "out"
    with shown.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's jobs ignore it
        )
    try:
        deadline = time.monotonic() + 60
        with Feeder(local.addresses(example / ".ds")) as feeder:
            while "User_followed" not in shown.read_text() and time.monotonic() < deadline:
                feeder.send([data.Out("ds_users", None, {"userid": "User_followed"})])
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert "User_followed" in shown.read_text()


def test_query_tables_in_postgres(example: Path, ds) -> None:
    import psycopg2

    addresses = local.addresses(example / ".ds")
    password = local.postgres_password(example / ".ds")
    connection = psycopg2.connect(addresses.postgres, user=addresses.postgres_user, password=password)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS public.region_clicks")
            cursor.execute(
                "CREATE TABLE public.region_clicks (click_url text, user_regionid text, url_region_click_count bigint)"
            )
            cursor.execute(
                "INSERT INTO public.region_clicks VALUES ('./home', 'r1', 3), ('./home', 'r2', 4), ('./x', NULL, 5)"
            )
        text = """SELECT click_url, sum(url_region_click_count) AS clicks, count(*) AS c, UPPER(click_url) || '!' AS u
          FROM region_clicks WHERE user_regionid LIKE 'r%' OR user_regionid IS NULL
          GROUP BY click_url ORDER BY clicks DESC"""
        found = json.loads(ds("query", text, "--json")[1])
        assert found["columns"][1] == {"name": "clicks", "type": "BIGINT"}
        assert found["rows"] == [
            {"click_url": "./home", "clicks": 7, "c": 2, "u": "./HOME!"},
            {"click_url": "./x", "clicks": 5, "c": 1, "u": "./X!"},
        ]
        text = "SELECT REGEXP_EXTRACT(click_url, 'h.*') AS s FROM region_clicks WHERE user_regionid = 'r1'"
        assert json.loads(ds("query", text, "--json")[1])["rows"] == [{"s": "home"}]
    finally:
        with connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE public.region_clicks")
        connection.close()
