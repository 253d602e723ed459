"""Functions of ARRAY, Flink SQL's names and meanings. Places are counted from 1, NULL is an element like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import BOOLEAN, INTEGER, VARCHAR
from ds_dagster.functions.function import RowFunction, element, first, scalar
from ds_dagster.functions.question import Computed, nullable, strict
from ds_dagster.functions.spark import Functions

if TYPE_CHECKING:
    from pyspark.sql import Column

# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_element(f: Functions, array: Column) -> Any:
    several = f.raise_error(f.lit("ELEMENT of an ARRAY with more than one element"))
    return f.when(f.size(array) > 1, several).otherwise(f.get(array, 0))


def _spark_sort(f: Functions, array: Column, upwards: Column | None = None, nulls_first: Column | None = None) -> Any:
    rising, falling = f.sort_array(array, True), f.sort_array(array, False)
    if upwards is None:
        return rising
    first = upwards if nulls_first is None else nulls_first
    nulls, others = (f.filter(array, lambda item: item.isNull()), f.filter(rising, lambda item: item.isNotNull()))
    moved = f.when(upwards, f.concat(others, nulls)).otherwise(f.concat(nulls, f.reverse(others)))
    ordered = f.when(upwards == first, f.when(upwards, rising).otherwise(falling)).otherwise(moved)
    return f.when(upwards.isNotNull() & first.isNotNull(), ordered)


def _spark_slice(f: Functions, array: Column, *bounds: Column) -> Any:
    def place(bound: Column) -> Any:
        """A place counted from 1; a negative one counts from the end, 0 is 1."""
        return f.when(bound < 0, f.size(array) + bound + 1).when(bound == 0, f.lit(1)).otherwise(bound)

    places = [place(bound) for bound in bounds]
    last = places[1] if len(places) == 2 else f.size(array)
    none_null = f.lit(True)
    for bound in bounds:
        none_null = none_null & bound.isNotNull()
    return f.when(none_null, f.filter(array, lambda _, index: (index + 1 >= places[0]) & (index + 1 <= last)))


# --- questions --------------------------------------------------------------------------------------------------------


def _only(values: list[Any]) -> Any:
    if len(values) > 1:
        raise ValueError("ELEMENT of an ARRAY with more than one element")
    return values[0] if values else None


def _is_in(wanted: Any, values: list[Any]) -> bool:
    return rank(wanted) in map(rank, values)


def _place(values: list[Any], wanted: Any) -> int:
    ranks = list(map(rank, values))
    return ranks.index(rank(wanted)) + 1 if rank(wanted) in ranks else 0


def _distinct(values: list[Any]) -> list[Any]:
    """Each value once; -0.0 is 0.0."""
    once = [value for place, value in enumerate(values) if not _is_in(value, values[:place])]
    return [0.0 if isinstance(value, float) and value == 0 else value for value in once]


def _ordered(values: list[Any], upwards: bool = True, nulls_first: bool | None = None) -> list[Any]:
    present = sorted((value for value in values if value is not None), key=rank, reverse=not upwards)
    nulls = [None] * (len(values) - len(present))
    return nulls + present if (upwards if nulls_first is None else nulls_first) else present + nulls


def _slice(values: list[Any], first: int, last: int | None = None) -> list[Any]:
    def place(bound: int) -> int:
        return len(values) + bound + 1 if bound < 0 else bound or 1

    end = len(values) if last is None else place(last)
    return values[max(place(first) - 1, 0) : max(end, 0)]


def rank(value: Any) -> tuple[Any, ...]:
    """Orders and compares values as Spark does: NULL inside first, NaN last and equal to itself, STRUCTs and ARRAYs
    part by part."""
    if value is None:
        return (0,)
    if isinstance(value, dict | list):
        return (1, tuple(map(rank, value.values() if isinstance(value, dict) else value)))
    return (2,) if value != value else (1, value)


def _extreme(choose: Callable[..., Any]) -> Computed:
    def function(values: list[Any]) -> Any:
        present = [value for value in values if value is not None]
        return choose(present, key=rank) if present else None

    return strict(function)


def _joined(values: list[Any], separator: str, null: str | None = None) -> str:
    shown = [null if value is None else value for value in values]
    return separator.join(value for value in shown if value is not None)


# --- records ----------------------------------------------------------------------------------------------------------

ARRAY_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "CARDINALITY",
        "collection",
        INTEGER,
        "number of elements of an ARRAY or entries of a MAP",
        ("CARDINALITY(ARRAY[1, 2])", "2"),
        aliases=("SIZE",),
        spark="size",
        question=strict(len),
    ),
    scalar(
        "ELEMENT",
        "array",
        element,
        "the only element; NULL for an empty ARRAY, fails for more than one element",
        ("ELEMENT(ARRAY[7])", "7"),
        nulls="always",
        spark=_spark_element,
        question=strict(_only),
    ),
    scalar(
        "ARRAY_CONTAINS",
        "comparable_array element",
        BOOLEAN,
        "whether the ARRAY has the element (also NULL)",
        ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", "TRUE"),
        ("ARRAY_CONTAINS(ARRAY['a'], NULL)", "FALSE"),
        spark=lambda f, array, wanted: f.exists(array, lambda item: item.eqNullSafe(wanted)),
        question=nullable(lambda values, wanted: None if values is None else _is_in(wanted, values)),
    ),
    scalar(
        "ARRAY_POSITION",
        "comparable_array element",
        INTEGER,
        "place of the first such element, counted from 1; 0 if absent",
        ("ARRAY_POSITION(ARRAY['a', 'b'], 'b')", "2"),
        spark=lambda f, array, wanted: f.call_function("array_position", array, wanted).cast("int"),
        question=strict(_place),
    ),
    scalar(
        "ARRAY_APPEND",
        "array element",
        first,
        "the ARRAY with the element at the end",
        ("ARRAY_APPEND(ARRAY[1], 2)", "ARRAY[1, 2]"),
        spark=lambda f, array, new: f.array_append(array, new),
        question=nullable(lambda values, new: None if values is None else [*values, new]),
    ),
    scalar(
        "ARRAY_PREPEND",
        "array element",
        first,
        "the ARRAY with the element at the start",
        ("ARRAY_PREPEND(ARRAY[1], 2)", "ARRAY[2, 1]"),
        spark=lambda f, array, new: f.array_prepend(array, new),
        question=nullable(lambda values, new: None if values is None else [new, *values]),
    ),
    scalar(
        "ARRAY_REMOVE",
        "comparable_array element",
        first,
        "the ARRAY without all elements that are equal to the second argument",
        ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", "ARRAY[2]"),
        spark=lambda f, array, unwanted: f.filter(array, lambda item: ~item.eqNullSafe(unwanted)),
        question=nullable(
            lambda values, unwanted: (
                None if values is None else [value for value in values if rank(value) != rank(unwanted)]
            )
        ),
    ),
    scalar(
        "ARRAY_CONCAT",
        "same_array+",
        first,
        "the ARRAYs one after the other",
        ("ARRAY_CONCAT(ARRAY[1], ARRAY[2, 1])", "ARRAY[1, 2, 1]"),
        spark="concat",
        question=strict(lambda *lists: [value for values in lists for value in values]),
    ),
    scalar(
        "ARRAY_UNION",
        "same_comparable_array same_comparable_array",
        first,
        "elements of both, each once",
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[1, 2, 3]"),
        spark="array_union",
        question=strict(lambda first, second: _distinct([*first, *second])),
    ),
    scalar(
        "ARRAY_INTERSECT",
        "same_comparable_array same_comparable_array",
        first,
        "elements in both, each once",
        ("ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[2]"),
        spark="array_intersect",
        question=strict(lambda first, second: _distinct([value for value in first if _is_in(value, second)])),
    ),
    scalar(
        "ARRAY_EXCEPT",
        "same_comparable_array same_comparable_array",
        first,
        "elements of the first not in the second, each once",
        ("ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2, 3])", "ARRAY[1]"),
        spark="array_except",
        question=strict(lambda first, second: _distinct([value for value in first if not _is_in(value, second)])),
    ),
    scalar(
        "ARRAY_DISTINCT",
        "comparable_array",
        first,
        "each element once",
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", "ARRAY[1, 2]"),
        spark="array_distinct",
        question=strict(_distinct),
    ),
    scalar(
        "ARRAY_REVERSE",
        "array",
        first,
        "the elements in reverse order",
        ("ARRAY_REVERSE(ARRAY[1, 2])", "ARRAY[2, 1]"),
        spark="reverse",
        question=strict(lambda values: values[::-1]),
    ),
    scalar(
        "ARRAY_SORT",
        "comparable_array boolean? boolean?",
        first,
        "sorted upwards with NULLs first, or with FALSE downwards with NULLs last; the third argument says whether "
        "NULLs are first",
        ("ARRAY_SORT(ARRAY[2, 1])", "ARRAY[1, 2]"),
        ("ARRAY_SORT(ARRAY[1, 2], FALSE)", "ARRAY[2, 1]"),
        ("ARRAY_SORT(ARRAY[2, NULL, 1], TRUE, FALSE)", "ARRAY[1, 2, NULL]"),
        spark=_spark_sort,
        question=strict(_ordered),
    ),
    scalar(
        "ARRAY_SLICE",
        "array integer integer?",
        first,
        "elements from a place to a place (default: the end), both included; negative places count from the end",
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)", "ARRAY[2, 3]"),
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], -2)", "ARRAY[3, 4]"),
        spark=_spark_slice,
        question=strict(_slice),
    ),
    scalar(
        "ARRAY_MAX",
        "comparable_array",
        element,
        "largest element that is not NULL",
        ("ARRAY_MAX(ARRAY[1, 3, 2])", "3"),
        nulls="always",
        spark="array_max",
        question=_extreme(max),
    ),
    scalar(
        "ARRAY_MIN",
        "comparable_array",
        element,
        "smallest element that is not NULL",
        ("ARRAY_MIN(ARRAY[2, 1, 3])", "1"),
        nulls="always",
        spark="array_min",
        question=_extreme(min),
    ),
    scalar(
        "ARRAY_JOIN",
        "scalar_array text text?",
        VARCHAR,
        "elements as CAST to VARCHAR shows them, with the second argument between them; NULLs are left out, or shown "
        "as the third argument",
        ("ARRAY_JOIN(ARRAY['a', NULL, 'b'], '-', '?')", "'a-?-b'"),
        ("ARRAY_JOIN(ARRAY[TRUE, FALSE], ',')", "'TRUE,FALSE'"),
        spark="array_join",
        question=strict(_joined),
    ),
)
