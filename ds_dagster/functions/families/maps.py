"""Functions of MAP. Names and meanings are Flink SQL's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import VARCHAR, ArrayType, DataType, MapType, StructField, StructType
from ds_dagster.functions.constants import Constant
from ds_dagster.functions.families.regexes import java_split
from ds_dagster.functions.function import RowFunction, first, scalar
from ds_dagster.functions.question import strict
from ds_dagster.functions.spark import Functions, by_java

if TYPE_CHECKING:
    from pyspark.sql import Column

# --- types ------------------------------------------------------------------------------------------------------------


def _map(types: Sequence[DataType]) -> MapType:
    assert isinstance(types[0], MapType)
    return types[0]


def _keys(types: Sequence[DataType]) -> DataType:
    return ArrayType(_map(types).key)


def _values(types: Sequence[DataType]) -> DataType:
    return ArrayType(_map(types).value)


def _entries(types: Sequence[DataType]) -> DataType:
    map_ = _map(types)
    return ArrayType(StructType((StructField("key", map_.key), StructField("value", map_.value))))


def _map_of(types: Sequence[DataType]) -> DataType:
    keys, values = types
    assert isinstance(keys, ArrayType) and isinstance(values, ArrayType)
    return MapType(keys.element, values.element)


# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_union(f: Functions, old: Column, new: Column) -> Any:
    others = f.map_filter(old, lambda key, _: ~f.map_contains_key(new, key))
    return f.map_concat(others, new)


# --- questions --------------------------------------------------------------------------------------------------------


def _pairs(pairs: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs.items()]


def _from_arrays(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    if len(keys) != len(values) or len(set(keys)) != len(keys) or None in keys:
        raise ValueError("a MAP needs as many keys as values, and no key that is NULL or repeated")
    return dict(zip(keys, values, strict=True))


def _of_text(text: str, between: str = ",", inside: str = "=") -> dict[str, str | None]:
    pairs = (java_split(part, inside, 2) for part in java_split(text, between)) if text else ()
    return {pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}


# --- records ----------------------------------------------------------------------------------------------------------

MAP_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "STR_TO_MAP",
        ("text", "text text text"),
        MapType(VARCHAR, VARCHAR),
        "pairs of a text as a MAP; the second and third argument are regular expressions of the separators of pairs "
        "and of key and value, default `,` and `=`; the last of equal keys counts, a pair without a value has NULL",
        ("STR_TO_MAP('a=1,b=2')", "MAP['a', '1', 'b', '2']"),
        ("STR_TO_MAP('a:1;a:2;c', ';', ':')", "MAP['a', '2', 'c', NULL]"),
        spark=by_java("Pairs.of"),
        question=strict(_of_text),
        constants=(Constant("regex", 1), Constant("regex", 2)),
    ),
    scalar(
        "MAP_KEYS",
        "map",
        _keys,
        "its keys",
        ("MAP_KEYS(MAP['a', 1])", "ARRAY['a']"),
        spark="map_keys",
        question=strict(lambda pairs: list(pairs)),
    ),
    scalar(
        "MAP_VALUES",
        "map",
        _values,
        "its values",
        ("MAP_VALUES(MAP['a', 1])", "ARRAY[1]"),
        spark="map_values",
        question=strict(lambda pairs: list(pairs.values())),
    ),
    scalar(
        "MAP_ENTRIES",
        "map",
        _entries,
        "its entries as STRUCT<key, value>",
        ("MAP_ENTRIES(MAP['a', 1])[1]->value", "1"),
        spark="map_entries",
        question=strict(_pairs),
    ),
    scalar(
        "MAP_FROM_ARRAYS",
        "scalar_array array",
        _map_of,
        "MAP of an ARRAY of keys and one of values; fails if their numbers differ, or a key is NULL or repeated",
        ("MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[1, 2])['b']", "2"),
        spark="map_from_arrays",
        question=strict(_from_arrays),
    ),
    scalar(
        "MAP_UNION",
        "same_map same_map",
        first,
        "entries of both; for a key in both, the entry of the second",
        ("MAP_UNION(MAP['a', 1], MAP['a', 2])['a']", "2"),
        spark=_spark_union,
        question=strict(lambda first, second: {**first, **second}),
    ),
)
