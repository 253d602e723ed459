"""Types from samples: they hold every value that was seen, whatever the order, and say what does not go together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_dagster.cli.sampled_types import MAP_FIELDS, merged, seen
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
HOLDS = {"BOOLEAN": bool, "BIGINT": int, "DECIMAL": int, "DOUBLE": (int, float), "VARCHAR": object}


def holds(type_: DataType, value: Any) -> bool:
    """Whether a type can hold a JSON value; VARCHAR holds anything as text."""
    if value is None or (isinstance(type_, Scalar) and type_.name == "VARCHAR"):
        return True
    if isinstance(type_, StructType):
        known = {field.name: field.type for field in type_.fields}
        return isinstance(value, dict) and all(n in known and holds(known[n], inner) for n, inner in value.items())
    if isinstance(type_, MapType):
        return isinstance(value, dict) and all(holds(type_.value, inner) for inner in value.values())
    if isinstance(type_, ArrayType):
        return isinstance(value, list) and all(holds(type_.element, inner) for inner in value)
    if type_.name == "BOOLEAN" or isinstance(value, bool):
        return type_.name == "BOOLEAN" and isinstance(value, bool)
    return isinstance(value, HOLDS[type_.name]) and (type_.name != "BIGINT" or -(2**63) <= value < 2**63)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(VALUES, max_size=6))
def test_every_value_fits(values: list[Any]) -> None:
    found = seen(values)
    assert found.count == len(values)
    assert all(holds(found.type, value) for value in values)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4))
def test_the_order_of_batches_does_not_matter(left: list[Any], right: list[Any]) -> None:
    one, other = merged(seen(left), seen(right)), merged(seen(right), seen(left))
    assert (one.is_mixed, one.count, one.nulls) == (other.is_mixed, other.count, other.nulls)
    assert all(holds(one.type, value) and holds(other.type, value) for value in (*left, *right))
    assert seen([*left, *right]).type == one.type


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("[1, 2.5]", "DOUBLE"),
        ("[1, 9223372036854775808]", "DECIMAL(38,0)"),
        ("[true, null]", "BOOLEAN"),
        ('["a", 1]', "VARCHAR"),
        ("[null]", "VARCHAR"),
        ("[[], [1], [2.5]]", "ARRAY<DOUBLE>"),
        ("[[]]", "ARRAY<VARCHAR>"),
        ('[{"a": 1}, {"b": {"c": [true]}}]', "STRUCT<a BIGINT, b STRUCT<c ARRAY<BOOLEAN>>>"),
        ('[{"a": 1}, [1]]', "VARCHAR"),
        ("[{}]", "MAP<VARCHAR,VARCHAR>"),
    ],
)
def test_types(values: str, expected: str) -> None:
    assert str(seen(json.loads(values)).type) == expected


def test_objects_of_many_names_are_maps() -> None:
    many = [{f"user_{number}": number} for number in range(MAP_FIELDS + 1)]
    assert str(seen(many).type) == "MAP<VARCHAR,BIGINT>"
    assert isinstance(seen([*many, {"x": "text"}]).type, StructType)
