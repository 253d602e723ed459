"""What a new version of a schema means for the declared columns, format by format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas.evolution import Evolution, RecordShape, described
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.catalog.schemas.protobuf import set_text
from ds_dagster.sql.script import parse_type
from tests.protobuf_files import proto_file


def columns(text: str) -> list[Column]:
    pairs = [part.strip().partition(" ") for part in text.split(";")]
    return [Column(name, parse_type(type_)) for name, _, type_ in pairs]


def avro(*fields: Any) -> str:
    written = [f if isinstance(f, dict) else dict(zip(("name", "type"), f, strict=True)) for f in fields]
    return json.dumps({"type": "record", "name": "R", "fields": written})


def protobuf(*lines: str, first: Sequence[str] = ()) -> str:
    messages = {"Other": first} if first else {}
    return set_text([proto_file("r.proto", {**messages, "R": list(lines)})])


def json_schema(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": {n: {"type": t} for n, t in properties.items()}})


def told(format_: str, old: str, new: str, declared: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """Difference, affected columns, unknown columns, columns whose rules are others."""
    wanted = columns(declared)
    before, after = (FORMATS[format_].shape(text, wanted) for text in (old, new))
    evolution = Evolution.between(before, after)
    affected = described(evolution, wanted, "t", "is NULL")["columns"]
    return evolution.text(), affected, after.unknown([c.name for c in wanted]), evolution.ruled


def inside(field: Any) -> Any:
    """Records of one field in an array."""
    return {"type": "array", "items": {"type": "record", "name": "I", "fields": [field]}}


ID, X = ("id", "int"), {"name": "x", "type": "int"}
NONE = "no declared column"
CASES: dict[str, tuple[str, str, str, str, tuple[str, str, tuple[str, ...], tuple[str, ...]]]] = {
    "added, not declared": ("avro", avro(ID), avro(ID, ("b", "int")), "id INTEGER", ("b is new", NONE, (), ())),
    "added, declared": ("avro", avro(ID), avro(ID, ("b", "int")), "id INTEGER; b INTEGER", ("b is new", "b", (), ())),
    "added with a default": (
        "avro", avro(ID), avro(ID, {"name": "b", "type": "int", "default": 5}), "id INTEGER; b INTEGER",
        ("b is new", "b", (), ("b",)),
    ),
    "added with a default of null": (
        "avro", avro(ID), avro(ID, {"name": "b", "type": ["null", "int"], "default": None}), "b INTEGER",
        ("b is new", "b", (), ()),
    ),
    "removed": ("avro", avro(ID, ("b", "int")), avro(ID), "id INTEGER; b INTEGER", ("b is gone", "b", ("b",), ())),
    "renamed, new name declared": (
        "avro", avro(("was", "int")), avro({"name": "now", "type": "int", "aliases": ["was"]}), "now INTEGER",
        ("was is called now", "now", (), ("now",)),
    ),
    "renamed, old name declared": (
        "avro", avro(("was", "int")), avro({"name": "now", "type": "int", "aliases": ["was"]}), "was INTEGER",
        ("was is called now", "was", ("was",), ()),
    ),
    "another type": (
        "avro", avro(ID), avro(("id", "long")), "id INTEGER", ("id was int, is long", "id", (), ()),
    ),
    "another default": (
        "avro", avro({"name": "a", "type": "int", "default": 1}), avro({"name": "a", "type": "int", "default": 2}),
        "a INTEGER", ("a has another alias, default or number", "a", (), ("a",)),
    ),
    "another default of a field that nobody reads": (
        "avro", avro({"name": "a", "type": "int", "default": 1}), avro({"name": "a", "type": "int", "default": 2}),
        "b INTEGER", ("its fields are the same", NONE, ("b",), ()),
    ),
    "a default inside": (
        "avro", avro(("s", inside(X))), avro(("s", inside({**X, "default": 3}))), "s ARRAY<STRUCT<x INTEGER>>",
        ("s has another alias, default or number", "s", (), ("s",)),
    ),
    "another doc": (
        "avro", avro(ID), avro({"name": "id", "type": "int", "doc": "d"}), "id INTEGER",
        ("its fields are the same", NONE, (), ()),
    ),
    "no record": ("avro", '"string"', '"string"', "a VARCHAR", ("its fields are the same", NONE, (), ())),
    "a message gets a field": (
        "protobuf", protobuf("int32 id = 1"), protobuf("int32 id = 1", "string b = 2"), "id INTEGER",
        ("b is new", NONE, (), ()),
    ),
    "a field of a message is renamed": (
        "protobuf", protobuf("int32 id = 1", "string b = 2"), protobuf("int32 id = 1", "string c = 2"),
        "id INTEGER; c VARCHAR", ("b is called c", "c", (), ("c",)),
    ),
    "a field of a message has another number": (
        "protobuf", protobuf("int32 id = 1"), protobuf("int32 id = 2"), "id INTEGER",
        ("id has another alias, default or number", "id", (), ("id",)),
    ),
    "the message that is meant is not the first one": (
        "protobuf", protobuf("int32 id = 1", first=["int32 x = 1"]), protobuf("int64 id = 1", first=["int32 x = 1"]),
        "id BIGINT", ("id was int32, is int64", "id", (), ()),
    ),
    "a property is gone, another one is new": (
        "json_schema", json_schema(a="integer", b="string"), json_schema(a="integer", c="string"),
        "a BIGINT; b VARCHAR", ("c is new; b is gone", "b", ("b",), ()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_new_version_means(case: str) -> None:
    format_, old, new, declared, expected = CASES[case]
    assert told(format_, old, new, declared) == expected


FIXES = {
    "a column to add": ({"a": "int"}, {"a": "int", "b": "int"}, "to read b, add it to the columns of t"),
    "nothing": ({"a": "int"}, {"a": "int"}, "nothing has to be done"),
    "a column that is gone": ({"a": "int", "b": "int"}, {"b": "int"}, "a is NULL: remove it from t"),
    "another type": ({"a": "int"}, {"a": "text"}, "check that a BIGINT of t holds text"),
}


@pytest.mark.parametrize("case", FIXES)
def test_what_to_do(case: str) -> None:
    old, new, fix = FIXES[case]
    meaning = described(Evolution.between(RecordShape(old), RecordShape(new)), columns("a BIGINT"), "t", "is NULL")
    assert fix in meaning["fix"]


def test_a_renamed_column_is_to_be_called_so() -> None:
    old, new = RecordShape({"was": "int"}), RecordShape({"now": "int"}, names={"now": frozenset({"was"})})
    meaning = described(Evolution.between(old, new), columns("was BIGINT"), "t", "is NULL")
    assert meaning["fix"] == "rename was to now in t"


def test_a_type_that_the_column_has_needs_nothing() -> None:
    old, new = RecordShape({"a": "int"}), RecordShape({"a": "long"}, {"a": parse_type("BIGINT")})
    meaning = described(Evolution.between(old, new), columns("a BIGINT"), "t", "is NULL")
    assert (meaning["columns"], meaning["fix"]) == ("a", "nothing has to be done")
