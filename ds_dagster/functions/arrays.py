"""Functions of ARRAY and MAP. Places are counted from 1. Names and meanings are Flink SQL's."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.datatypes import BOOLEAN, INTEGER, VARCHAR, ArrayType, DataType, MapType, StructField, StructType
from ds_dagster.functions.function import Example, Function, element, first, signature, simple


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


COLLECTION_FUNCTIONS: tuple[Function, ...] = (
    simple(
        "CARDINALITY",
        "collection",
        INTEGER,
        "number of elements of an ARRAY or entries of a MAP",
        ("CARDINALITY(ARRAY[1, 2])", "2"),
        aliases=("SIZE",),
    ),
    Function(
        "STR_TO_MAP",
        (signature("text", MapType(VARCHAR, VARCHAR)), signature("text text text", MapType(VARCHAR, VARCHAR))),
        "pairs of a text as a MAP; between pairs and between key and value stand regular expressions, default `,` and "
        "`=`; the last of equal keys counts, a pair without a value has NULL",
        examples=(
            Example("STR_TO_MAP('a=1,b=2')", "MAP['a', '1', 'b', '2']"),
            Example("STR_TO_MAP('a:1;a:2;c', ';', ':')", "MAP['a', '2', 'c', NULL]"),
        ),
    ),
    simple(
        "ELEMENT",
        "array",
        element,
        "the one element; NULL of an empty ARRAY, more than one fails",
        ("ELEMENT(ARRAY[7])", "7"),
        nulls="always",
    ),
    simple(
        "ARRAY_CONTAINS",
        "comparable_array element",
        BOOLEAN,
        "the element (also NULL) is in it",
        ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", "TRUE"),
        ("ARRAY_CONTAINS(ARRAY['a'], NULL)", "FALSE"),
    ),
    simple(
        "ARRAY_POSITION",
        "comparable_array element",
        INTEGER,
        "place of the first such element; 0 when absent",
        ("ARRAY_POSITION(ARRAY['a', 'b'], 'b')", "2"),
    ),
    simple(
        "ARRAY_APPEND",
        "array element",
        first,
        "with the element at the end",
        ("ARRAY_APPEND(ARRAY[1], 2)", "ARRAY[1, 2]"),
    ),
    simple(
        "ARRAY_PREPEND",
        "array element",
        first,
        "with the element at the start",
        ("ARRAY_PREPEND(ARRAY[1], 2)", "ARRAY[2, 1]"),
    ),
    simple(
        "ARRAY_REMOVE",
        "comparable_array element",
        first,
        "without every such element",
        ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", "ARRAY[2]"),
    ),
    simple(
        "ARRAY_CONCAT",
        "same_array+",
        first,
        "one after the other",
        ("ARRAY_CONCAT(ARRAY[1], ARRAY[2, 1])", "ARRAY[1, 2, 1]"),
    ),
    simple(
        "ARRAY_UNION",
        "same_comparable_array same_comparable_array",
        first,
        "elements of both, each once",
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[1, 2, 3]"),
    ),
    simple(
        "ARRAY_INTERSECT",
        "same_comparable_array same_comparable_array",
        first,
        "elements in both, each once",
        ("ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[2]"),
    ),
    simple(
        "ARRAY_EXCEPT",
        "same_comparable_array same_comparable_array",
        first,
        "elements of the first not in the second, each once",
        ("ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[1]"),
    ),
    simple(
        "ARRAY_DISTINCT",
        "comparable_array",
        first,
        "each element once",
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", "ARRAY[1, 2]"),
    ),
    simple("ARRAY_REVERSE", "array", first, "backwards", ("ARRAY_REVERSE(ARRAY[1, 2])", "ARRAY[2, 1]")),
    simple(
        "ARRAY_SORT",
        "comparable_array boolean?",
        first,
        "sorted; upwards with NULLs first, or (FALSE) downwards with NULLs last",
        ("ARRAY_SORT(ARRAY[2, 1])", "ARRAY[1, 2]"),
        ("ARRAY_SORT(ARRAY[1, 2], FALSE)", "ARRAY[2, 1]"),
    ),
    simple(
        "ARRAY_SLICE",
        "array integer integer?",
        first,
        "from a place to a place (the end), both included; negative ones are counted from the end",
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)", "ARRAY[2, 3]"),
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], -2)", "ARRAY[3, 4]"),
    ),
    simple(
        "ARRAY_MAX",
        "comparable_array",
        element,
        "largest element that is not NULL",
        ("ARRAY_MAX(ARRAY[1, 3, 2])", "3"),
        nulls="always",
    ),
    simple(
        "ARRAY_MIN",
        "comparable_array",
        element,
        "smallest element that is not NULL",
        ("ARRAY_MIN(ARRAY[2, 1, 3])", "1"),
        nulls="always",
    ),
    simple(
        "ARRAY_JOIN",
        "scalar_array text text?",
        VARCHAR,
        "texts with the second between them; NULLs are left out, or shown as the third",
        ("ARRAY_JOIN(ARRAY['a', NULL, 'b'], '-', '?')", "'a-?-b'"),
    ),
    simple("MAP_KEYS", "map", _keys, "its keys", ("MAP_KEYS(MAP['a', 1])", "ARRAY['a']")),
    simple("MAP_VALUES", "map", _values, "its values", ("MAP_VALUES(MAP['a', 1])", "ARRAY[1]")),
    simple(
        "MAP_ENTRIES", "map", _entries, "its entries as STRUCT<key, value>", ("MAP_ENTRIES(MAP['a', 1])[1]->value", "1")
    ),
    simple(
        "MAP_FROM_ARRAYS",
        "comparable_array array",
        _map_of,
        "keys and values of equal number; a key that comes twice fails",
        ("MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[1, 2])['b']", "2"),
    ),
    simple(
        "MAP_UNION",
        "same_map same_map",
        first,
        "entries of both; of one key the second's",
        ("MAP_UNION(MAP['a', 1], MAP['a', 2])['a']", "2"),
    ),
)
