"""Values of answers as JSON: one form of a type at every depth."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pytest

from ds_dagster.questions.values import json_value
from ds_dagster.sql.script import parse_type

MOMENT = datetime(2024, 1, 31, 10, 11, 12, 500_000, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("TIMESTAMP(3)", MOMENT.replace(tzinfo=None), "2024-01-31T10:11:12.500"),
        ("TIMESTAMP_LTZ(3)", MOMENT, "2024-01-31T10:11:12.500Z"),
        ("DECIMAL(5, 2)", Decimal("1.50"), 1.5),
        ("DOUBLE", float("nan"), "NaN"),
        ("FLOAT", float("-inf"), "-Infinity"),
        ("VARBINARY", b"\x00", "AA=="),
    ],
)
def test_a_value_is_shown_alike_at_every_depth(type_: str, value: object, shown: object) -> None:
    assert json_value(value, parse_type(type_)) == shown
    assert json_value([value, None], parse_type(f"ARRAY<{type_}>")) == [shown, None]
    assert json_value([("k", value)], parse_type(f"MAP<VARCHAR, {type_}>")) == {"k": shown}
    assert json_value({"a": {"b": value}}, parse_type(f"STRUCT<a STRUCT<b {type_}>>")) == {"a": {"b": shown}}


def test_json_text_of_a_store_has_the_types_of_its_column() -> None:
    type_ = parse_type("STRUCT<at TIMESTAMP(3), n BIGINT, t VARCHAR, b VARBINARY>")
    text = '{"at": "2024-01-31 10:11:12.5", "n": 7, "t": "x", "b": "AA=="}'
    assert json_value(text, type_) == {"at": "2024-01-31T10:11:12.500", "n": 7, "t": "x", "b": "AA=="}
