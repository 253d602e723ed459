"""Columns that stand in a registry: copied by ds schemas, compiled offline, compared by ds check --online."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.cli.main import run
from ds_dagster.project.load import compile_slice, load_project, slice_of
from ds_dagster.settings import load_settings
from tests.avro_registry import AvroRegistry
from tests.protobuf_files import proto_file, text_of

SQL = """
CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = '{url}');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'x', 'schema_registry.name' = r);
CREATE STREAM clicks WITH ('store' = k, 'topic' = 'web.clicks', 'value.format' = 'avro');
CREATE STREAM d WITH ('store' = k, 'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT url, "userId" FROM clicks;
"""
FIELDS = [
    {"name": "url", "type": "string"},
    {"name": "userId", "type": ["null", "long"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]


@pytest.fixture(autouse=True)
def _stores_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only registries are looked at here."""
    monkeypatch.setattr("ds_dagster.cli.online.store_findings", lambda project, seconds: ())


@pytest.fixture
def registry() -> Iterator[AvroRegistry]:
    with AvroRegistry() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, registry: AvroRegistry, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ds_dagster.project.cache.WORTH_SECONDS", 0)
    (tmp_path / "ds.toml").write_text('store = "k"\n')
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(SQL.format(url=registry.url))
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def conditions(found: dict[str, Any]) -> list[str]:
    return [one["condition"] for one in found["diagnostics"] if not one.get("caused_by")]


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Click", "fields": list(fields)}


def test_without_a_copy_the_relation_is_refused_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = answer(capsys, "check")
    assert code == 1
    assert "SCHEMA_NOT_RECORDED" in conditions(found)
    refused = next(one for one in found["diagnostics"] if one["condition"] == "SCHEMA_NOT_RECORDED")
    assert (refused["line"], "ds schemas" in refused["hint"]) == (4, True)


def test_a_copy_gives_the_columns_and_a_change_is_told(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("web.clicks-value", record(*FIELDS[:2]))
    code, (copied,) = answer(capsys, "schemas")
    file = folder / "schemas" / "r" / "web.clicks-value.avsc"
    assert (code, copied["state"], copied["file"]) == (0, "new", "schemas/r/web.clicks-value.avsc")
    assert json.loads(file.read_text()) == record(*FIELDS[:2])
    registry.down = True
    code, found = answer(capsys, "check")
    assert (code, found["diagnostics"]) == (0, [])
    columns = {one["fqn"].rpartition(".")[2]: one["columns"] for one in found["relations"]}
    assert [(c["name"], c["type"], c["nullable"]) for c in columns["clicks"]] == [
        ("url", "VARCHAR", True),
        ("userId", "BIGINT", True),
    ]
    settings = load_settings(folder)
    project = load_project(folder, settings=settings)
    pieces = slice_of(project, project.queries["d"])
    file.unlink()
    alone = compile_slice(pieces, settings)
    assert not alone.errors, "a job carries its columns"
    assert alone.queries["d"].fingerprint == project.queries["d"].fingerprint
    registry.down = False
    answer(capsys, "schemas")
    registry.register("web.clicks-value", record(*FIELDS))
    assert answer(capsys, "check")[1]["diagnostics"] == [], "offline nobody knows"
    code, found = answer(capsys, "check", "--online")
    assert (code, conditions(found)) == (0, ["SCHEMA_COPY_OUTDATED"])
    assert "at is new" in found["diagnostics"][0]["message"]
    code, (copied,) = answer(capsys, "schemas")
    assert (copied["state"], copied["difference"]) == ("changed", "at is new and has no default")
    columns = {one["fqn"].rpartition(".")[2]: one["columns"] for one in answer(capsys, "check")[1]["relations"]}
    assert [c["type"] for c in columns["clicks"]] == ["VARCHAR", "BIGINT", "TIMESTAMP_LTZ(3)"], "the cache saw it"
    assert answer(capsys, "schemas")[1][0]["state"] == "unchanged"


def test_an_incompatible_sink_is_told_before_anything_runs(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("web.clicks-value", record(*FIELDS))
    answer(capsys, "schemas")
    assert answer(capsys, "check", "--online") == (0, answer(capsys, "check")[1])
    registry.register("d-value", record({"name": "url", "type": "long"}))
    code, found = answer(capsys, "check", "--online")
    assert (code, conditions(found)) == (1, ["SCHEMA_INCOMPATIBLE"])
    assert "url was long, is null or string" in found["diagnostics"][0]["message"]
    assert registry.subjects["d-value"] == registry.subjects["d-value"][:1], "a check registers nothing"
    registry.down = True
    code, found = answer(capsys, "check", "--online")
    assert code == 1
    assert set(conditions(found)) == {"REGISTRY_UNREACHABLE"}


@pytest.mark.parametrize(
    ("schema", "condition"),
    [
        (None, "SCHEMA_MISSING"),
        (record({"name": "x", "type": ["int", "string"]}), "SCHEMA_FIELD_WITHOUT_TYPE"),
        ('"string"', "SCHEMA_FIELD_WITHOUT_TYPE"),
    ],
)
def test_what_gives_no_columns(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str], schema: Any, condition: str
) -> None:
    if schema is not None:
        registry.register("web.clicks-value", schema)
    if condition == "SCHEMA_MISSING":
        assert run(["schemas"]) == 1
        assert condition in capsys.readouterr().err
        return
    assert run(["schemas"]) == 0
    capsys.readouterr()
    assert condition in conditions(answer(capsys, "check")[1])


def test_projects_that_list_their_columns_need_no_copies(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.down = True
    listed = SQL.replace("clicks WITH", 'clicks (url VARCHAR, "userId" BIGINT) WITH').format(url=registry.url)
    (folder / "sql" / "a.sql").write_text(listed)
    assert answer(capsys, "schemas") == (0, [])
    assert answer(capsys, "check")[0] == 0


def test_avro_records_are_asked_through_a_view(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("web.clicks-value", record(*FIELDS))
    assert run(["schemas"]) == 0
    assert run(["query", "SELECT url FROM clicks", "--limit", "1"]) == 1
    assert "FORMAT_QUESTION_NOT_YET" in capsys.readouterr().err


OTHER = {
    "protobuf": (
        text_of(proto_file("c", {"Click": ["string url = 1", "int64 userId = 2"]})),
        text_of(proto_file("c", {"Click": ["string url = 1", "int64 userId = 2", "google.protobuf.Timestamp at = 3"]})),
        text_of(proto_file("d", {"D": ["int64 url = 1"]})),
        "at is new",
    ),
    "json_schema": (
        {"properties": {"url": {"type": "string"}, "userId": {"type": "integer"}}},
        {"properties": {"url": {"type": "string"}, "userId": {"type": "integer"}, "at": {"type": "boolean"}}},
        {"properties": {"url": {"type": "integer"}}},
        "at is new",
    ),
}


@pytest.mark.parametrize("format_", OTHER)
def test_other_formats_are_copied_and_compared_too(
    folder: Path, registry: AvroRegistry, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    first, second, sink, told = OTHER[format_]
    type_ = {"protobuf": "PROTOBUF", "json_schema": "JSON"}[format_]
    file = folder / "sql" / "a.sql"
    file.write_text(file.read_text().replace("'avro'", f"'{format_}'"))
    registry.register("web.clicks-value", first, schemaType=type_)
    _, (copied,) = answer(capsys, "schemas")
    assert copied["file"] == {
        "protobuf": "schemas/r/web.clicks-value.proto.json", "json_schema": "schemas/r/web.clicks-value.schema.json",
    }[format_]  # fmt: skip
    code, found = answer(capsys, "check")
    assert (code, found["diagnostics"]) == (0, [])
    columns = {one["fqn"].rpartition(".")[2]: one["columns"] for one in found["relations"]}
    assert [(c["name"], c["type"]) for c in columns["clicks"]] == [("url", "VARCHAR"), ("userId", "BIGINT")]
    registry.register("web.clicks-value", second, schemaType=type_)
    registry.register("d-value", sink, schemaType=type_)
    code, found = answer(capsys, "check", "--online")
    by_condition = {one["condition"]: one["message"] for one in found["diagnostics"]}
    assert told in by_condition["SCHEMA_COPY_OUTDATED"]
    _, (copied,) = answer(capsys, "schemas")
    assert (copied["state"], copied["difference"]) == ("changed", told)
    if format_ == "json_schema":
        assert code == 1
        assert "url was BIGINT, is VARCHAR or null" in by_condition["SCHEMA_INCOMPATIBLE"]
    else:
        assert "SCHEMA_INCOMPATIBLE" not in by_condition, "a field of another type gets another number"
