"""Decoding of records: text for people, typed columns for questions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import RecordKey, Relation
from ds_dagster.datatypes import BIGINT, BOOLEAN, INTEGER, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.following import RecordTable, check_endless
from ds_dagster.questions.json_records import JsonMistakeError, read_object, value_of_json
from ds_dagster.questions.records import decode, primitive_types, shown_part
from ds_dagster.sql.script import parse_select, parse_type
from tests.scalars import answer_of, same_answer


@pytest.fixture
def loaded(project: Path) -> LoadedProject:
    return load_project(project, strict=True)


def relation(loaded: LoadedProject, name: str) -> Relation:
    return loaded.catalog.relation(QualifiedName("d", "public", name))


def record(value: object, key: object = None) -> RawRecord:
    def raw(part: object) -> bytes | None:
        return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()

    return RawRecord("0", "1", 1_700_000_000_000, raw(key), raw(value))


@pytest.mark.parametrize(
    ("part", "type_", "shown"),
    [
        (None, None, "null"),
        (b'{"a": 1,  "b": [1, 2]}', None, '{"a":1,"b":[1,2]}'),
        (b'{"a": 1.10, "a": 1e3}', None, '{"a":1.10,"a":1e3}'),
        (b'{"a": NaN}', None, '{"a": NaN}'),
        (b"plain text", None, "plain text"),
        ("Grüße".encode(), None, "Grüße"),
        (b"\xff\x00", None, "0xff00"),
        (b"", None, ""),
        ((7).to_bytes(8, "big"), BIGINT, "7"),
        ((-2).to_bytes(4, "big", signed=True), INTEGER, "-2"),
        (b"\x01", BOOLEAN, "true"),
        (b"\x01\x02", BIGINT, "0x0102"),
        (b"User_1", VARCHAR, "User_1"),
    ],
)
def test_parts_as_text(part: bytes | None, type_, shown: str) -> None:
    assert shown_part(part, type_) == shown


def test_typed_columns_of_a_value(loaded: LoadedProject) -> None:
    value = {
        "at": "2024-01-31T12:00:01.5Z",
        "url": "./x",
        "price": 1.25,
        "paid": True,
        "tags": ["a"],
        "place": {"city": "B"},
    }
    found = decode(relation(loaded, "clicks"), record(value))
    assert found.problem == ""
    assert found.values == {
        "at": datetime(2024, 1, 31, 12, 0, 1, 500_000, timezone.utc), "url": "./x", "device": None, "userid": None,
        "price": Decimal("1.25"), "paid": True, "tags": ["a"], "place": {"city": "B", "zip": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"no json", "the value is not valid JSON"),
        (b'{"price": NaN}', "the value is not valid JSON"),
        (b'{"price": 1} more', "more text follows the JSON object"),
        ([1], "the value is not a JSON object"),
        ({"paid": "yes"}, "the JSON has another type for: paid BOOLEAN"),
        ({"at": 5}, "the JSON has another type for: at TIMESTAMP_LTZ(3)"),
        ({"tags": {}}, "the JSON has another type for: tags ARRAY<VARCHAR>"),
        ({"price": "x"}, "the JSON has another type for: price DECIMAL(10,2)"),
        (None, "it has no value"),
    ],
)
def test_what_cannot_be_decoded_is_told(loaded: LoadedProject, value: object, problem: str) -> None:
    assert decode(relation(loaded, "clicks"), record(value)).problem == problem


@pytest.mark.parametrize("key", [{"userid": "u1"}, b"u1", b'"u1"'])
def test_a_delete_gives_its_key(loaded: LoadedProject, key: object) -> None:
    found = decode(relation(loaded, "users"), record(None, key))
    assert (found.deleted, dict(found.values), found.problem) == (True, {"userid": "u1"}, "")


def test_columns_kept_in_the_key_alone_come_from_it(loaded: LoadedProject) -> None:
    users = relation(loaded, "users")
    users = replace(users, key=RecordKey("json", ("userid",), exclude=("userid",)))
    found = decode(users, record({"region": "r", "age": 3}, {"userid": "u1"}))
    assert dict(found.values) == {"userid": "u1", "region": "r", "age": 3}


def test_primitive_key_types(loaded: LoadedProject) -> None:
    users = relation(loaded, "users")
    assert primitive_types(users) == (None, None)
    assert primitive_types(replace(users, key=RecordKey("primitive", ("userid",)))) == (VARCHAR, None)
    assert primitive_types(None) == (None, None)


def ask_record(loaded: LoadedProject, text: str, *records: RawRecord) -> list[dict[str, object]]:
    question = bind_question(loaded, parse_select(text))
    check_endless(question, text)
    with RecordTable(question) as table:
        return list(table.rows([(decode(question.relations[0], r), r.timestamp_millis) for r in records]))


def test_projection_and_condition_over_records(loaded: LoadedProject) -> None:
    text = (
        "SELECT url, place->city AS city, tags[1] AS tag, price + price AS twice, rowtime() AS t FROM clicks WHERE paid"
    )
    value = {"url": "./x", "paid": True, "price": 1.25, "tags": ["a", "b"], "place": {"city": "Bern", "zip": 3000}}
    rows = ask_record(loaded, text, record(value), record(value | {"paid": False}), record({"url": "./y"}))
    assert rows == [{"url": "./x", "city": "Bern", "tag": "a", "twice": 2.5, "t": 1_700_000_000_000}]


def test_nested_values_come_as_json(loaded: LoadedProject) -> None:
    (row,) = ask_record(loaded, "SELECT tags, place FROM clicks", record({"tags": ["a"], "place": {"zip": 1}}))
    assert row == {"tags": ["a"], "place": {"city": None, "zip": 1}}


def test_changelog_shows_upserts_and_deletes(loaded: LoadedProject) -> None:
    upsert, delete = (
        record({"userid": "u1", "region": "r", "age": 40}, {"userid": "u1"}),
        record(None, {"userid": "u1"}),
    )
    assert ask_record(loaded, "SELECT * FROM users", upsert, delete) == [
        {"__op": "upsert", "userid": "u1", "region": "r", "age": 40},
        {"__op": "delete", "userid": "u1", "region": None, "age": None},
    ]


def test_a_delete_passes_unless_its_key_excludes_it(loaded: LoadedProject) -> None:
    delete = record(None, {"userid": "u1"})
    assert len(ask_record(loaded, "SELECT * FROM users WHERE age > 30", delete)) == 1
    assert ask_record(loaded, "SELECT * FROM users WHERE userid = 'u2'", delete) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT count(*) FROM clicks", "an aggregate"),
        ("SELECT url FROM clicks GROUP BY url", "GROUP BY"),
        ("SELECT url FROM clicks ORDER BY url", "ORDER BY"),
        ("SELECT DISTINCT url FROM clicks", "DISTINCT"),
        ("SELECT c.url FROM clicks c JOIN users u ON c.userid = u.userid", "a join"),
        ("SELECT c.url FROM clicks c JOIN visits v ON c.url = v.url", "a join"),
        ("SELECT t.url FROM (SELECT url FROM clicks) t", "a sub-select"),
    ],
)
def test_what_has_no_end_is_refused_with_the_view_to_write(loaded: LoadedProject, text: str, what: str) -> None:
    question = bind_question(loaded, parse_select(text))
    with pytest.raises(DsError) as caught:
        check_endless(question, text)
    assert caught.value.condition == "QUESTION_WITHOUT_END"
    assert caught.value.params["what"] == what
    assert f"AS {text}" in caught.value.hint


TABLE = Path(__file__).parents[1] / "fixtures" / "json_input.tsv"
BAD = "BAD"


def test_json_is_read_by_the_table_of_json_input() -> None:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    wrong = []
    for name, written, expected in lines:
        type_ = parse_type(name)
        try:
            read = value_of_json(read_object(f'{{"c": {written}}}'.encode()).members["c"], type_)
            found = answer_of(value_of(read, type_), type_)
        except JsonMistakeError:
            found = BAD
        if not same_answer(found, expected):
            wrong.append(f"{name} {written}: {found}, expected {expected}")
    assert not wrong, "\n".join(wrong)
