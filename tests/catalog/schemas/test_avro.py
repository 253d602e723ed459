"""Columns and Avro schemas: what is made, what of a base is kept, how two differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas.avro import difference, parse_avro, sink_schema, sql_type
from ds_dagster.errors import UserError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_type

HEAD = """
CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://x');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'x', 'schema_registry.name' = r);
CREATE STREAM s (a BIGINT NOT NULL, b VARCHAR, m MAP<BIGINT, BIGINT>) WITH ('store' = k, 'value.format' = 'avro');
"""
Compiled = Callable[[str], LoadedProject]


@pytest.fixture
def compiled(settings: Settings) -> Compiled:
    sizes = "'store' = k, 'topic.partitions' = 1, 'topic.replicas' = 1"
    return lambda select: compile_texts([("a.sql", f"{HEAD}CREATE STREAM t WITH ({sizes}) AS {select};")], settings)


@pytest.mark.parametrize(
    ("select", "condition", "told"),
    [
        ('SELECT a AS "a b" FROM s', "AVRO_NAME_INVALID", "a b"),
        ('SELECT a AS "1a" FROM s', "AVRO_NAME_INVALID", "1a"),
        ("SELECT m FROM s", "AVRO_TYPE_UNWRITABLE", "MAP<BIGINT,BIGINT>"),
    ],
)
def test_what_avro_cannot_hold_is_refused_offline(compiled: Compiled, select: str, condition: str, told: str) -> None:
    (found,) = compiled(select).errors
    assert found.condition == condition
    assert told in found.message
    assert found.span is not None and found.span.line == 5


def columns(*written: str) -> list[Column]:
    found = []
    for text in written:
        name, _, type_ = text.partition(" ")
        found.append(Column(name, parse_type(type_.removesuffix(" NOT NULL")), not type_.endswith(" NOT NULL")))
    return found


def test_a_schema_is_made_of_columns() -> None:
    made = sink_schema("t-value", "my-topic", columns("a BIGINT NOT NULL", "b ARRAY<STRUCT<c DECIMAL(5,2)>>"))
    digits = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    inner = {
        "type": "record",
        "name": "my_topic_b",
        "fields": [{"name": "c", "type": ["null", digits], "default": None}],
    }
    assert made == {
        "type": "record",
        "name": "my_topic",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "b", "type": ["null", {"type": "array", "items": ["null", inner]}], "default": None},
        ],
    }
    assert sink_schema("t-value", "9", columns("a BIGINT"))["name"] == "_9"


def test_made_again_over_itself_it_stays_the_same() -> None:
    types = ("BOOLEAN", "VARCHAR", "TIMESTAMP(6)", "TIMESTAMP_LTZ", "TIME", "DATE", "MAP<VARCHAR,ARRAY<DOUBLE>>")
    given = columns(*(f"c{number} {type_}" for number, type_ in enumerate((*types, "STRUCT<x STRUCT<y TINYINT>>"))))
    first = json.dumps(sink_schema("t-value", "t", given))
    assert json.dumps(sink_schema("t-value", "other", given, first)) == first


def test_types_a_base_defines_once_are_defined_where_they_are_used_first() -> None:
    """The field that defined a type may be gone; records inside themselves are not followed."""
    money = {"type": "record", "name": "Money", "namespace": "m", "fields": [{"name": "x", "type": "int"}]}
    base: dict[str, Any] = {
        "type": "record", "name": "B", "namespace": "n", "fields": [
            {"name": "a", "type": money},
            {"name": "b", "type": "m.Money"},
            {"name": "c", "type": {"type": "array", "items": "m.Money"}},
            {"name": "d", "type": ["null", "B"], "default": None},
        ],
    }  # fmt: skip
    given = columns("b STRUCT<x INTEGER> NOT NULL", "c ARRAY<STRUCT<x INTEGER>> NOT NULL", "d STRUCT<x INTEGER>")
    made = sink_schema("t-value", "t", given, json.dumps(base))
    assert made["name"] == "n.B"
    b, c, d = made["fields"]
    assert b["type"] == {"type": "record", "name": "m.Money", "fields": [{"name": "x", "type": "int"}]}
    assert c["type"] == {"type": "array", "items": "m.Money"}
    assert d["type"][1]["name"] == "n.B_d", "made new: the base has another type"
    parse_avro(json.dumps(made))
    assert sql_type(parse_avro(json.dumps(base))) is None


@pytest.mark.parametrize("text", ["{", '{"type": "array", "items": {"kind": "x"}}', '["int", "Unknown"]'])
def test_schemas_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="AVRO_SCHEMA_UNREADABLE"):
        parse_avro(text)


def test_differences_are_told_in_words() -> None:
    first = json.dumps(sink_schema("s", "t", columns("a BIGINT NOT NULL", "b VARCHAR", "c DATE")))
    second = json.dumps(sink_schema("s", "t", columns("b VARCHAR NOT NULL", "c TIMESTAMP", "d DOUBLE")))
    told = difference(first, second).split("; ")
    assert sorted(told) == [
        "a is gone and has no default",
        "b was null or string, is string",
        "c was null or date, is null or local-timestamp-millis",
        "d is new",
    ]
    assert "its name or an older version" in difference(first, first)
