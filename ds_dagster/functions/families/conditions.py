"""Functions that choose among their arguments; Flink SQL's names and meanings."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import Scalar
from ds_dagster.functions.families.arrays import rank
from ds_dagster.functions.function import RowFunction, first, last, scalar
from ds_dagster.functions.question import ByTypes, Call, Native, named, native, strict
from ds_dagster.functions.spark import Functions, SparkMeaning

if TYPE_CHECKING:
    from pyspark.sql import Column


def _spark_none_null(name: str) -> SparkMeaning:
    """GREATEST and LEAST: NULL if an argument is NULL; Spark ignores NULLs."""

    def build(f: Functions, *columns: Column) -> Any:
        some_null = reduce(or_, [column.isNull() for column in columns])
        return f.when(~some_null, f.call_function(name, *columns) if len(columns) > 1 else columns[0])

    return build


def _none_null(name: str, choose: Callable[..., Any]) -> ByTypes:
    """GREATEST and LEAST: NULL if an argument is NULL; DuckDB ignores NULLs. Nested values are compared in Python,
    since DuckDB orders NULLs inside them differently."""

    def build(call: Call) -> exp.Expression:
        nulls = [exp.Is(this=argument.copy(), expression=exp.Null()) for argument in call.arguments]
        some_null = nulls[0] if len(nulls) == 1 else exp.or_(*nulls)
        branch = exp.If(this=some_null, true=exp.Null())
        return exp.Case(ifs=[branch], default=named(name, *call.arguments))

    nested = strict(lambda *values: choose(values, key=rank))
    return ByTypes(lambda result: Native(build) if isinstance(result, Scalar) else nested)


def _if(call: Call) -> exp.Expression:
    condition, first, second = call.arguments
    return exp.Case(ifs=[exp.If(this=condition, true=first)], default=second)


CONDITIONAL_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "COALESCE",
        "same+",
        first,
        "first argument that is not NULL",
        ("COALESCE(NULL, 1, 2)", "1"),
        nulls="all",
        aliases=("IFNULL", "NVL"),
        spark="coalesce",
        question=native("coalesce"),
    ),
    scalar(
        "NULLIF",
        "same_comparable same_comparable",
        first,
        "NULL if both are equal, else the first",
        ("NULLIF(1, 1)", "NULL"),
        nulls="always",
        spark="nullif",
        question=native("nullif"),
    ),
    scalar(
        "IF",
        "boolean same same",
        last,
        "the second argument if the first is true, else (also for NULL) the third",
        ("IF(1 > 2, 'more', 'less')", "'less'"),
        nulls="always",
        spark=lambda f, condition, value, otherwise: f.when(condition, value).otherwise(otherwise),
        question=Native(_if),
    ),
    scalar(
        "GREATEST",
        "same_comparable+",
        first,
        "largest argument; NULL if any argument is NULL",
        ("GREATEST(1, 3, 2)", "3"),
        spark=_spark_none_null("greatest"),
        question=_none_null("greatest", max),
    ),
    scalar(
        "LEAST",
        "same_comparable+",
        first,
        "smallest argument; NULL if any argument is NULL",
        ("LEAST(1, 3, 2)", "1"),
        spark=_spark_none_null("least"),
        question=_none_null("least", min),
    ),
)
