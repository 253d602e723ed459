"""Columns ↔ schemas of every format: what is made can be read again, what does not fit is refused, changes are told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas import json_schema, protobuf_schema
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.catalog.schemas.protobuf import Types, fits, read_set, read_text
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.errors import UserError
from ds_dagster.sql.script import parse_type
from tests.protobuf_files import classes

SCALARS = [
    Scalar("BOOLEAN"), Scalar("VARCHAR"), Scalar("INTEGER"), Scalar("BIGINT"), Scalar("FLOAT"), Scalar("DOUBLE"),
    Scalar("VARBINARY"), Scalar("DATE"), Scalar("TIME", precision=9), Scalar("TIMESTAMP_LTZ", precision=6),
    Scalar("DECIMAL", precision=20, scale=3),
]  # fmt: skip
names = st.sampled_from("abcdefgh")


def structs(inside: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.dictionaries(names, inside, min_size=1, max_size=3)
    return fields.map(lambda found: StructType(tuple(StructField(name, type_) for name, type_ in found.items())))


scalars: st.SearchStrategy[DataType] = st.sampled_from(SCALARS)


def parts(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    single = scalars | structs(inner)
    keys = st.sampled_from([Scalar("VARCHAR"), Scalar("BIGINT"), Scalar("BOOLEAN")])
    return structs(single | single.map(ArrayType) | st.builds(MapType, keys, single))


types = scalars | st.recursive(structs(scalars), parts, max_leaves=6)
columns = st.dictionaries(names, st.tuples(types, st.booleans()), min_size=1, max_size=5).map(
    lambda found: [Column(name, type_, nullable) for name, (type_, nullable) in found.items()]
)


@seed(71)
@settings(max_examples=60, database=None, deadline=None)
@given(columns, columns)
def test_protobuf_schemas_are_whole_and_follow_their_columns(first: list[Column], second: list[Column]) -> None:
    """Python's protobuf accepts every schema, a copy gives the columns back, and one with a base never gives a number a
    new meaning."""
    format_ = FORMATS["protobuf"]
    old = format_.sink("t-value", "t", first, "", None)
    assert classes(read_text(old).file[-1])["t"]
    assert [(name, type_) for name, type_, _ in format_.fields(format_.recorded(format_.copied(old)))] == [
        (column.name, column.type) for column in first
    ]
    assert format_.same(old, format_.sink("t-value", "t", first, old, None))
    new = format_.sink("t-value", "t", second, old, None)
    assert classes(read_text(new).file[-1])["t"]
    made, fields = read_text(new), {f.name: f for f in read_text(new).file[-1].message_type[0].field}
    assert {c.name for c in second} == set(fields)
    assert all(fits(c.type, fields[c.name], Types.of(made)) for c in second), "or a wider field of the base"
    was, is_ = ({f.number: f for f in read_text(one).file[-1].message_type[0].field} for one in (old, new))
    for number in was.keys() & is_.keys():
        assert (was[number].name, was[number].type) == (is_[number].name, is_[number].type)
    assert bool(format_.difference(old, new)) is True


@seed(72)
@settings(max_examples=60, database=None, deadline=None)
@given(columns)
def test_json_schemas_are_valid_and_kept(given_columns: list[Column]) -> None:
    from jsonschema import Draft7Validator

    text_keys = [c for c in given_columns if "MAP<B" not in str(c.type)]
    made = json_schema.sink_schema("t-value", "t", text_keys)
    Draft7Validator.check_schema(json.loads(made))
    assert json_schema.same(made, json_schema.sink_schema("t-value", "t", text_keys, made))


@pytest.mark.parametrize(
    ("format_", "column", "condition", "told"),
    [
        ("protobuf", ("a b", "BIGINT"), "PROTOBUF_NAME_INVALID", "a b"),
        ("protobuf", ("x", "STRUCT<a_b BIGINT, aB BIGINT>"), "PROTOBUF_NAME_INVALID", "ab"),
        ("protobuf", ("x", "ARRAY<ARRAY<BIGINT>>"), "PROTOBUF_TYPE_UNWRITABLE", "STRUCT"),
        ("protobuf", ("x", "MAP<VARCHAR, ARRAY<BIGINT>>"), "PROTOBUF_TYPE_UNWRITABLE", "STRUCT"),
        ("protobuf", ("x", "MAP<DOUBLE, BIGINT>"), "PROTOBUF_TYPE_UNWRITABLE", "CAST"),
        ("json_schema", ("x", "MAP<BIGINT, BIGINT>"), "JSON_SCHEMA_TYPE_UNWRITABLE", "CAST"),
    ],
)
def test_what_cannot_be_written_is_refused(format_: str, column: tuple[str, str], condition: str, told: str) -> None:
    with pytest.raises(UserError, match=condition) as caught:
        FORMATS[format_].sink("t-value", "t", [Column(column[0], parse_type(column[1]))], "", None)
    assert told in caught.value.text() if hasattr(caught.value, "text") else str(caught.value)


@pytest.mark.parametrize("text", ["!", "AAAA", ""])
def test_texts_that_are_no_descriptors(text: str) -> None:
    with pytest.raises(UserError, match="PROTOBUF_SCHEMA_UNREADABLE"):
        read_text(text)
    with pytest.raises(UserError, match="PROTOBUF_SCHEMA_UNREADABLE"):
        FORMATS["protobuf"].recorded("{}")
    with pytest.raises(UserError, match="PROTOBUF_SCHEMA_UNREADABLE"):
        read_set(b"\xff")


@pytest.mark.parametrize("text", ["{", "[]", "true"])
def test_texts_that_are_no_json_schema(text: str) -> None:
    with pytest.raises(UserError, match="JSON_SCHEMA_UNREADABLE"):
        json_schema.parse_schema(text)
    assert json_schema.difference(text, "{}") == "the two cannot be compared"


def test_columns_of_a_json_schema() -> None:
    schema = {
        "definitions": {"Money": {"type": "object", "properties": {"units": {"type": "integer"}}}},
        "properties": {
            "a": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Money"}]},
            "b": {"type": ["null", "string"], "format": "date-time"},
            "c": {"type": "array", "items": {"type": "number"}},
            "d": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "e": {"type": "string", "format": "uuid"},
            "f": {"$ref": "other.json"},
            "g": {"type": ["string", "integer"]},
            "h": {"$ref": "#/properties/h"},
        },
    }
    found = {name: str(type_) for name, type_, _ in FORMATS["json_schema"].fields(json.dumps(schema))}
    assert found == {
        "a": "STRUCT<units BIGINT>", "b": "TIMESTAMP_LTZ(6)", "c": "ARRAY<DOUBLE>", "d": "MAP<VARCHAR,BOOLEAN>",
        "e": "VARCHAR", "f": "None", "g": "None", "h": "None",
    }  # fmt: skip


def test_differences() -> None:
    first = [Column("a", Scalar("BIGINT")), Column("b", Scalar("VARCHAR"))]
    second = [Column("a", Scalar("DOUBLE")), Column("c", Scalar("VARCHAR"), nullable=False)]
    old, new = (protobuf_schema.sink_schema("t", "t", one) for one in (first, second))
    assert protobuf_schema.difference(old, new) == "c is new; b is gone; a was int64, is double"
    assert "cannot be compared" in protobuf_schema.difference("!", new)
    old, new = (json_schema.sink_schema("t", "t", one) for one in (first, second))
    told = json_schema.difference(old, new)
    assert told == "c is new and required; b is gone; a was BIGINT or null, is DOUBLE or null"
