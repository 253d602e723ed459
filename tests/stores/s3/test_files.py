"""Stores of files without Spark: what is declared and refused, formats, positions, control and entity statements."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import NewRecord
from ds_dagster.catalog.reading.volume import Volume
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.errors import DsError
from ds_dagster.files import position as positions
from ds_dagster.files.address import FileFacts, FilesAddress, FileStore
from ds_dagster.files.layout import column_folders, columns_of_path, is_hidden
from ds_dagster.files.position import FilePosition, hash_of
from ds_dagster.files.rows import FileFormat, read_rows
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.s3.admin import S3Admin
from ds_dagster.stores.s3.loader import WRITERS, WrittenFormat
from tests.fixtures.lake import s3_bucket

FOLDER = "'uris' = 'file:///data/files'"
EVENTS = "CREATE STREAM events (id BIGINT, region VARCHAR, price DOUBLE) WITH ('store' = 'f', 'value.format' = 'csv');"


def compiled(tmp_path: Path, store: str = FOLDER, events: str = EVENTS, more: str = "") -> LoadedProject:
    text = f"CREATE STORE m WITH ('type' = MEMORY);\nCREATE STORE f WITH ('type' = S3, {store});\n{events}\n{more}"
    return compile_texts([("files.sql", text)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="f"))


def refused(step: Any) -> DsError:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value


# --- declared ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "condition", "part"),
    [
        ("'description' = 'x'", "STORE_PROPERTY_MISSING", "uris"),
        ("'uris' = 'data/files'", "PROPERTY_INVALID", "file:///absolute/folder"),
        ("'uris' = 's3://me:secret@bucket/x'", "PROPERTY_INVALID", "s3://bucket/prefix"),
        ("'uris' = 's3://bucket', 'aws.access_key_id' = 'k'", "STORE_PROPERTY_MISSING", "aws.secret_access_key"),
        ("'uris' = 's3://bucket', 'aws.iam_external_id' = '${X}'", "STORE_PROPERTY_MISSING", "aws.iam_role_arn"),
        ("'uris' = 's3://bucket', 'aws.endpoint_url' = 'minio:9000'", "PROPERTY_INVALID", "http(s)://host:port"),
    ],
)
def test_stores_that_cannot_be(tmp_path: Path, store: str, condition: str, part: str) -> None:
    errors = compiled(tmp_path, store).errors
    assert condition in {problem.condition for problem in errors}
    assert part in " ".join(problem.text() for problem in errors)


CHANGES = "CREATE CHANGELOG c (id BIGINT, PRIMARY KEY(id)) WITH ('store' = 'f', 'value.format' = 'json');"
COUNTS = "CREATE CHANGELOG c WITH ('store' = 'f') AS SELECT region, COUNT(*) AS n FROM events GROUP BY region;"


@pytest.mark.parametrize(
    ("sql", "condition", "part"),
    [
        (CHANGES, "FILES_HOLD_NO_CHANGELOG", "STREAM"),
        (COUNTS, "FILES_HOLD_NO_CHANGELOG", "STREAM"),
        ("CREATE TABLE t AS SELECT id FROM events;", "STORE_CANNOT_HOLD", "DELTA"),
        (
            "CREATE STREAM s WITH ('store' = 'm', 'value.format' = 'avro') AS SELECT id FROM events;",
            "",
            "",
        ),
        (
            "CREATE STREAM s WITH ('value.format' = 'primitive') AS SELECT id FROM events;",
            "VALUE_FORMAT_OTHER_STORE",
            "json, csv, parquet",
        ),
        ("CREATE STREAM s WITH ('value.format' = 'avro') AS SELECT id FROM events;", "FORMAT_STORE_NOT_YET", "S3"),
        (
            "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:1'); CREATE STREAM s (id BIGINT) "
            "WITH ('store' = 'k', 'value.format' = 'parquet', 'topic.partitions' = 1, 'topic.replicas' = 1);",
            "VALUE_FORMAT_OTHER_STORE",
            "json, primitive, avro, protobuf, json_schema",
        ),
        (
            "CREATE STORE k WITH ('type' = KINESIS, 'uris' = 'http://h:1'); CREATE STREAM s (id BIGINT) "
            "WITH ('store' = 'k', 'value.format' = 'parquet', 'topic.shards' = 1);",
            "VALUE_FORMAT_OTHER_STORE",
            "write 'value.format' = one of json, primitive",
        ),
        ("CREATE STREAM s WITH ('delivery' = 'exactly_once') AS SELECT id, region FROM events;", "", ""),
        ("CREATE STREAM s WITH ('csv.delimiter' = '::') AS SELECT id FROM events;", "PROPERTY_INVALID", "tab"),
        ("CREATE STREAM s WITH ('topic.partitions' = 1) AS SELECT id FROM events;", "PROPERTY_OF_OTHER_STORE", "KAFKA"),
    ],
)
def test_relations_that_cannot_be(tmp_path: Path, sql: str, condition: str, part: str) -> None:
    errors = compiled(tmp_path, more=sql).errors
    assert {problem.condition for problem in errors} == ({condition} if condition else set())
    assert part in " ".join(problem.text() for problem in errors)


@pytest.mark.parametrize(
    ("more", "select", "condition"),
    [
        (", 'files.compression' = snappy", "id", "FILES_COMPRESSION_INVALID"),
        (", 'topic' = 'a/_b'", "id", "ENTITY_NAME_INVALID"),
        ("", "id, price FROM events PARTITION BY price", "FILES_PARTITION_TYPE"),
        ("", "id, region FROM events PARTITION BY id, region", "VALUE_COLUMNS_ALL_EXCLUDED"),
        ("", "id", "FILES_CSV_ONE_COLUMN"),
        ("", "id, region FROM events PARTITION BY region", "FILES_CSV_ONE_COLUMN"),
    ],
)
def test_sinks_that_cannot_be(tmp_path: Path, more: str, select: str, condition: str) -> None:
    source = "" if "FROM" in select else " FROM events"
    sql = f"CREATE STREAM s WITH ('value.format' = 'csv'{more}) AS SELECT {select}{source};"
    (problem,) = compiled(tmp_path, more=sql).errors
    assert problem.condition == condition


@pytest.mark.parametrize(
    ("format_", "select"),
    [("csv", "COALESCE(id, 0) AS id"), ("csv", "id, region"), ("json", "id"), ("parquet", "id")],
)
def test_rows_that_no_reader_skips(tmp_path: Path, format_: str, select: str) -> None:
    sql = f"CREATE STREAM s WITH ('value.format' = '{format_}') AS SELECT {select} FROM events;"
    assert not compiled(tmp_path, more=sql).errors


def test_an_empty_line_is_no_row_to_a_reader() -> None:
    """Why a column that may be NULL is not written alone: Spark and pandas skip the line too."""
    table = pyarrow.table({"id": pyarrow.array([1, None, 2], pyarrow.int64())})
    content = bytes(WRITERS["csv"](table, WrittenFormat("csv")))
    assert content == b'"id"\n1\n\n2\n'
    ((_, texts),) = read_rows(io.BytesIO(content), "x", FileFormat("csv", {"id": "whole"}))
    assert [json.loads(text) for text in texts] == [{"id": 1}, {"id": 2}]


def test_records_do_not_bound_a_batch_of_files(tmp_path: Path) -> None:
    project = compiled(tmp_path)
    (relation,) = project.catalog.relations.values()
    options = ReadOptions(max_records_per_batch=5)
    step = lambda: KINDS["S3"].read_spec(project.catalog.store("f"), relation, options, None)  # noqa: E731
    assert refused(step).condition == "FILES_BATCH_BOUND"


def test_a_copy_into_another_store_is_json(tmp_path: Path) -> None:
    sql = "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:1'); CREATE STREAM s WITH ('store' = 'k', "
    project = compiled(tmp_path, more=sql + "'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT id FROM events;")
    assert not project.errors
    assert project.queries["s"].sink.value_format == "json"
    assert KINDS["S3"].uri(project.catalog.store("f"), project.queries["s"].scans[0].relation) == (
        "file:///data/files/events"
    )


def test_keys_are_not_shown() -> None:
    made = FilesAddress("f", "s3://b", secret_access_key="marked", session_token="marked", external_id="marked")
    assert "marked" not in repr(made)
    assert "marked" not in repr(S3Admin(made))


# --- formats ----------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12))
NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
COLUMNS = {"a": "text", "b": "whole", "c": "number", "d": "boolean"}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(TEXTS, NUMBERS, FLOATS, st.one_of(st.none(), st.booleans())), max_size=8),
    st.booleans(),
    st.sampled_from([",", ";", "|", "\t"]),
    st.sampled_from(["csv", "parquet"]),
)
def test_rows_come_back_as_they_were_written(rows: list[Any], header: bool, delimiter: str, format_: str) -> None:
    types = {"a": pyarrow.string(), "b": pyarrow.int64(), "c": pyarrow.float64(), "d": pyarrow.bool_()}
    columns = list(zip(*rows, strict=True)) or [()] * 4
    table = pyarrow.table({n: pyarrow.array(v, t) for (n, t), v in zip(types.items(), columns, strict=True)})
    written = WRITERS[format_](table, WrittenFormat(format_, "none", header, delimiter))
    read = FileFormat(format_, COLUMNS, header, delimiter)  # type: ignore[arg-type]  # families are checked words
    found = [json.loads(text) for _, texts in read_rows(pyarrow.BufferReader(written), "x", read) for text in texts]
    assert found == [dict(zip("abcd", row, strict=True)) for row in rows]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(min_size=1, max_size=6), TEXTS, min_size=1, max_size=3))
def test_columns_come_back_from_a_path(values: dict[str, str | None]) -> None:
    path = column_folders(list(values), list(values.values())) + "/x.csv"
    assert path.count("/") == len(values)
    assert columns_of_path(path) == {name: value or None for name, value in values.items()}
    assert not is_hidden(column_folders(["_day", "a"], ["x", "_y"]) + "/x.csv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("007", 7),
        ("+1.50", 1.5),
        (".5", 0.5),
        ("1.", 1),
        ("-0012.5e3", -12500.0),
        (" 3 ", 3),
        ("1_0", "1_0"),
    ],
)
def test_numbers_in_cells(text: str, expected: Any) -> None:
    source = pyarrow.BufferReader(f"c\n{text}\n7\n".encode())
    ((_, texts),) = read_rows(source, "x", FileFormat("csv", {"c": "number"}))
    assert [json.loads(found)["c"] for found in texts] == [expected, 7]


# --- positions --------------------------------------------------------------------------------------------------------

FILES = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([f"f{n}" for n in range(60)])),
    unique_by=lambda file: file[1],
    max_size=60,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(FILES, st.integers(1, 7), st.randoms(use_true_random=False))
def test_every_file_is_read_once_in_whatever_order_it_appears(files: list[Any], step: int, random: Any) -> None:
    """With a memory of four files: what is late beyond it is told, never read twice and never passed over."""
    remembered, positions.REMEMBERED = positions.REMEMBERED, 4
    try:
        appeared: list[FileFacts] = []
        read: list[str] = []
        position = FilePosition()
        waiting = [FileFacts(time, path, 1) for time, path in files]
        while waiting:
            count = random.randint(1, len(waiting))
            appeared, waiting = appeared + waiting[:count], waiting[count:]
            while unread := _unread(position, appeared):
                position = FilePosition.parse(json.loads(json.dumps(position.after(unread[:step], appeared).json())))
                read += [file.path for file in position.batch]
            if unread is None:
                return
        assert sorted(read) == sorted(path for _, path in files)
    finally:
        positions.REMEMBERED = remembered


def _unread(position: FilePosition, listing: list[FileFacts]) -> list[FileFacts] | None:
    try:
        return position.unread(listing, "f.events")
    except DsError as problem:
        assert problem.condition == "FILE_TOO_LATE"
        assert any(file.modified < position.horizon for file in listing)
        return None


def test_positions_of_another_source_are_refused() -> None:
    for offset in ({}, {"files": {"0": {"n": "x"}}}, {"events": {"0": {"from": "latest"}}}):
        assert refused(lambda offset=offset: FilePosition.parse(offset)).condition == "FILES_OFFSET_INVALID"
    assert len(hash_of("a")) == 8
    assert FilePosition().at_end_of([FileFacts(1, "a", 1)]).unread([FileFacts(1, "a", 1)], "e") == []


# --- control and entity statements ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket() -> Iterator[Mapping[str, str]]:
    with s3_bucket("files") as found:
        yield found


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.servers)])
def admin(request: pytest.FixtureRequest, tmp_path: Path) -> S3Admin:
    given = {"store": "f", "url": (tmp_path / "files").as_uri()}
    if request.param == "bucket":
        given = {**request.getfixturevalue("bucket"), "store": "f", "url": f"s3://files/{tmp_path.name}"}
    return S3Admin(FilesAddress.of(given))


def send(admin: S3Admin, path: str, content: str) -> None:
    FileStore(admin.address).write(admin.address.place(path), content.encode())


def test_looking_at_files(admin: S3Admin) -> None:
    assert admin.describe("web/clicks") is None
    send(admin, "web/clicks/day=1/a.csv", "id,n\n1,x\n2,\n")
    send(admin, "web/clicks/_temporary/b.csv", "id\n9\n")
    send(admin, "events/a.jsonl", '{"id":3}\n')
    facts = admin.describe("web/clicks")
    assert facts is not None
    assert (facts.settings["files"], facts.settings["bytes"]) == ("1", "12")
    assert [found.name for found in admin.entities()] == ["events", "web"]
    assert admin.probe().ok
    records = list(admin.records("web/clicks", from_beginning=True, limit=2, stopped=lambda: False))
    assert [json.loads(record.value or b"") for record in records] == [{"id": "1", "n": "x"}, {"id": "2", "n": None}]
    assert [(record.partition, record.position) for record in records] == [("day=1/a.csv", "0"), ("day=1/a.csv", "1")]
    assert admin.ensure(EntityPlan("new/one")).name == "new/one"
    assert admin.end_reached("events", {}) == 0


def test_entity_statements(admin: S3Admin) -> None:
    with closing(admin.operations()) as operations:
        operations.create(("web", "clicks"), EntityPlan(""))
        assert refused(lambda: operations.create(("web", "clicks"), EntityPlan(""))).condition == "ENTITY_EXISTS"
        name = operations.insert(("web", "clicks"), NewRecord('{"id": 1.50}'))
        send(admin, "web/by_day/day=1/a.csv", "id\n7\n")
        assert [(node.path, node.is_level) for node in operations.children(())] == [(("web",), True)]
        below = operations.children(("web",))
        assert [(node.path[-1], node.is_level) for node in below] == [("by_day", False), ("clicks", False)]
        described = operations.describe(("web", "clicks"))
        assert described is not None
        assert (described.facts.settings["files"], described.bytes) == ("1", 11)
        clicks, nothing = (cast(Relation, SimpleNamespace(entity=name)) for name in ("web/clicks", "web/none"))
        assert operations.volume(clicks) == Volume(None, 11), "rows are counted by reading them only"
        assert operations.volume(nothing) is None
        (record,) = operations.sample(("web/clicks",), 5)
        assert (record.partition, record.value) == (name, b'{"id":1.5}')
        operations.drop(("web", "clicks"))
        assert operations.describe(("web", "clicks")) is None
        steps = {
            "ENTITY_NOT_FOUND": [
                lambda: operations.drop(("web", "clicks")),
                lambda: operations.sample(("web", "click"), 1),
                lambda: operations.children(("nowhere",)),
            ],
            "ENTITY_PATH_INVALID": [lambda: operations.describe(()), lambda: operations.children(("a", "../b"))],
            "ENTITY_RECORD_INVALID": [
                lambda: operations.insert(("web", "by_day"), NewRecord('{"id": 1}')),
                lambda: operations.insert(("web", "by_day"), NewRecord(None, "k")),
            ],
            "ENTITY_STATEMENT_REFUSED": [
                lambda: operations.update(("web", "by_day"), EntityPlan("")),
                lambda: operations.create(("x",), EntityPlan("", counts={"topic.partitions": 1})),
            ],
        }
        for condition, wrong in steps.items():
            assert [refused(step).condition for step in wrong] == [condition] * len(wrong)


@pytest.mark.servers
def test_what_fails_at_a_bucket(bucket: Mapping[str, str]) -> None:
    address = FilesAddress.of({**bucket, "store": "f", "url": "s3://files/x"})
    missing = S3Admin(replace(address, url="s3://no-such-bucket/x"))
    assert refused(lambda: missing.ensure(EntityPlan("e"))).condition == "STORE_BUCKET_MISSING"
    assert not missing.probe().ok
    silent = S3Admin(replace(address, endpoint_url="http://127.0.0.1:9"))
    assert refused(lambda: silent.describe("e")).condition == "STORE_UNREACHABLE"
    role = replace(address, role_arn="arn:aws:iam::123456789012:role/reader", external_id="an-id")
    assert S3Admin(role).probe().ok
    unknown = S3Admin(replace(role, endpoint_url="http://127.0.0.1:9"))
    assert refused(lambda: unknown.describe("e")).condition == "STORE_UNREACHABLE"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir(mode=0o500)
    made = S3Admin(FilesAddress("f", (tmp_path / "files").as_uri()))
    assert refused(lambda: made.ensure(EntityPlan("e"))).condition == "STORE_PERMISSION_DENIED"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("x")
    made = S3Admin(FilesAddress("f", (tmp_path / "files").as_uri()))
    assert refused(lambda: made.ensure(EntityPlan("e"))).condition == "STORE_FOLDER_INVALID"


def test_a_parquet_file_without_any_column_asked_for() -> None:
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"other": [1, 2]}), out)
    source = pyarrow.BufferReader(out.getvalue())
    ((_, texts),) = read_rows(source, "id=5/x.parquet", FileFormat("parquet", {"id": "whole"}))
    assert texts == [b'{"id":5}', b'{"id":5}']


def test_columns_of_folders_leave_the_digits_of_a_line_as_they_are() -> None:
    lines = ['\ufeff{"d": 12345678901234567890.10}', '{"d": 1.10, "r": null}', "{ }", '{"d"', "[1]"]
    source = pyarrow.BufferReader("\n".join(lines).encode())
    parts = read_rows(source, "r=EU/x.jsonl", FileFormat("json", {"d": "number", "r": "text"}))
    assert [text.decode() for _, texts in parts for text in texts] == [
        '{"r":"EU","d": 12345678901234567890.10}',
        '{"r":"EU","d": 1.10, "r": null}',
        '{"r":"EU" }',
        '{"r":"EU","d"',
        "[1]",
    ]


@pytest.mark.parametrize("kind", [pyarrow.date32(), pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC")])
def test_a_time_beyond_the_years_of_python_is_a_value_of_its_row(kind: Any) -> None:
    days = 10**7 if kind == pyarrow.date32() else 10**7 * 86_400 * 10**6
    ((_, texts),) = read_rows(_parquet_of(pyarrow.array([days, 0], kind)), "x", FileFormat("parquet", {"t": "text"}))
    assert [json.loads(text)["t"][:6] for text in texts] == ["29349-", "1970-0"]


def test_a_time_beyond_the_years_of_python_inside_of_an_array_is_named() -> None:
    source = _parquet_of(pyarrow.array([[10**7]], pyarrow.list_(pyarrow.date32())))
    with pytest.raises(DsError) as caught:
        list(read_rows(source, "x", FileFormat("parquet", {"t": "nested"})))
    assert caught.value.condition == "FILE_UNREADABLE"


def _parquet_of(column: pyarrow.Array) -> pyarrow.BufferReader:
    out = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"t": column}), out)
    return pyarrow.BufferReader(out.getvalue())
