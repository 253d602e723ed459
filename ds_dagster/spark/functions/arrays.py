"""How Spark computes the functions of ``functions/arrays.py``. Spark gives NULL for a NULL element; here NULL
is an element like any other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.spark.functions.calls import Arguments, Scalar, named, plain


def _element(arguments: Arguments) -> Column:
    array = arguments.columns[0]
    several = sf.raise_error(sf.lit("ELEMENT of an ARRAY with more than one element"))
    return sf.when(sf.size(array) > 1, several).otherwise(sf.get(array, 0))


def _contains(arguments: Arguments) -> Column:
    array, wanted = arguments.columns
    return sf.exists(array, lambda one: one.eqNullSafe(wanted))


def _remove(arguments: Arguments) -> Column:
    array, unwanted = arguments.columns
    return sf.filter(array, lambda one: ~one.eqNullSafe(unwanted))


def _sort(arguments: Arguments) -> Column:
    array, *upwards = arguments.columns
    rising = sf.sort_array(array, True)
    return sf.when(upwards[0], rising).otherwise(sf.sort_array(array, False)) if upwards else rising


def _slice(arguments: Arguments) -> Column:
    array, *bounds = arguments.columns
    places = [_place(array, bound) for bound in bounds]
    last = places[1] if len(places) == 2 else sf.size(array)
    none_null = sf.lit(True)
    for bound in bounds:
        none_null = none_null & bound.isNotNull()
    return sf.when(none_null, sf.filter(array, lambda _, index: (index + 1 >= places[0]) & (index + 1 <= last)))


def _place(array: Column, bound: Column) -> Column:
    """Counted from 1; negative ones from the end, 0 is 1."""
    return sf.when(bound < 0, sf.size(array) + bound + 1).when(bound == 0, sf.lit(1)).otherwise(bound)


def _map_union(arguments: Arguments) -> Column:
    first, second = arguments.columns
    kept = sf.map_filter(first, lambda key, _: ~sf.map_contains_key(second, key))
    return sf.map_concat(kept, second)


def _str_to_map(arguments: Arguments) -> Column:
    """Of equal keys the last: those that come again behind them are left out."""
    text, *marks = arguments.columns
    between, inside = marks or (sf.lit(","), sf.lit("="))
    texts = sf.when(text == "", sf.array().cast("array<string>")).otherwise(sf.split(text, between))
    pairs = sf.transform(texts, lambda pair: sf.split(pair, inside, 2))
    keys = sf.transform(pairs, lambda pair: sf.get(pair, sf.lit(0)))
    last = sf.filter(
        pairs,
        lambda pair, at: ~sf.array_contains(sf.slice(keys, at + 2, sf.size(keys)), sf.get(pair, sf.lit(0))),
    )
    entries = sf.transform(last, lambda pair: sf.struct(sf.get(pair, sf.lit(0)), sf.get(pair, sf.lit(1))))
    return sf.map_from_entries(entries)


def _prepend(arguments: Arguments) -> Column:
    array, element = arguments.columns
    return sf.array_prepend(array, element)


def _append(arguments: Arguments) -> Column:
    array, element = arguments.columns
    return sf.array_append(array, element)


COLLECTION_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "CARDINALITY": plain(sf.size),
        "STR_TO_MAP": _str_to_map,
        "ELEMENT": _element,
        "ARRAY_CONTAINS": _contains,
        "ARRAY_POSITION": lambda a: sf.call_function("array_position", *a.columns).cast("int"),
        "ARRAY_APPEND": _append,
        "ARRAY_PREPEND": _prepend,
        "ARRAY_REMOVE": _remove,
        "ARRAY_CONCAT": plain(sf.concat),
        "ARRAY_UNION": plain(sf.array_union),
        "ARRAY_INTERSECT": plain(sf.array_intersect),
        "ARRAY_EXCEPT": plain(sf.array_except),
        "ARRAY_DISTINCT": plain(sf.array_distinct),
        "ARRAY_REVERSE": plain(sf.reverse),
        "ARRAY_SORT": _sort,
        "ARRAY_SLICE": _slice,
        "ARRAY_MAX": plain(sf.array_max),
        "ARRAY_MIN": plain(sf.array_min),
        "ARRAY_JOIN": named("array_join"),
        "MAP_KEYS": plain(sf.map_keys),
        "MAP_VALUES": plain(sf.map_values),
        "MAP_ENTRIES": plain(sf.map_entries),
        "MAP_FROM_ARRAYS": plain(sf.map_from_arrays),
        "MAP_UNION": _map_union,
    }
)
"""Function → Spark."""
