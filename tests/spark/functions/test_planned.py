"""Whatever the binder accepts, Spark plans: each function and operator with each type of argument, in one session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import VARCHAR
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.expressions.calls import Aggregates
from ds_dagster.plan.expressions.record_fields import ORDER_FIELD
from ds_dagster.plan.nodes.node import BoundExpression, Field
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.functions.aggregates import native_call
from ds_dagster.spark.records.typemap import to_spark
from ds_dagster.sql.script import parse_select
from tests.spark.functions.calls_of_types import COLUMNS, KINDS, READ, TYPES, calls, operations

T = TypeVar("T")
AT_ONCE = 400
"""Columns of one plan."""
OF_TYPES = pytest.mark.parametrize(
    "types", [pytest.param(KINDS, id="each_kind"), pytest.param(TYPES, id="all", marks=pytest.mark.slow)]
)


def bound(
    texts: Iterable[str], aggregates: Callable[[], Aggregates | None] = lambda: None
) -> Iterator[tuple[str, BoundExpression]]:
    """Those texts that the binder accepts."""
    scope = Scope(Span("t.sql", 1, 1, 1, 1))
    fields = [(column, Field(column, READ[type_], True)) for type_, column in COLUMNS.items()]
    place = {ORDER_FIELD: Field("__order", VARCHAR, True)}
    scope.sources.append(Source("s", "s", visible(fields), "", place))
    for text in texts:
        try:
            tree = parse_select(f"SELECT {text} AS x FROM s").tree.expressions[0].this
            yield text, ExpressionBinder(scope, "SELECT", aggregates()).expression(tree)
        except DsError:
            continue


def called_with(kind: str, types: Sequence[str]) -> Iterator[str]:
    """Calls of aggregates, each also with DISTINCT and with FILTER."""
    for text in calls(kind, types):
        yield text
        yield text.replace("(", "(DISTINCT ", 1)
        yield f"{text} FILTER (WHERE {COLUMNS['BOOLEAN']})"


@pytest.fixture(scope="module")
def frame(spark) -> DataFrame:
    fields = [spark_types.StructField(column, to_spark(READ[type_])) for type_, column in COLUMNS.items()]
    return spark.createDataFrame([], spark_types.StructType(fields))


def refused(plan: Callable[[Sequence[Column]], DataFrame], columns: Sequence[tuple[str, Column]]) -> list[str]:
    """What Spark does not plan, found by halves."""
    try:
        made = plan([column.alias(f"x{n}") for n, (_, column) in enumerate(columns)])
        made._jdf.queryExecution().executedPlan()
    except Exception as problem:  # noqa: BLE001 - whatever Spark says is the finding
        if len(columns) == 1:
            return [f"{columns[0][0]}: {str(problem).splitlines()[0]}"]
        middle = len(columns) // 2
        return refused(plan, columns[:middle]) + refused(plan, columns[middle:])
    return []


@OF_TYPES
def test_every_call_and_operator_is_planned(frame, types):
    accepted = list(bound([*calls("scalar", types), *operations(types)]))
    assert len(accepted) > 75 * len(types)
    wrong = all_refused(accepted, lambda one: compile_expression(frame, one), lambda made: frame.select(*made))
    assert not wrong, f"{len(wrong)} of {len(accepted)}\n" + "\n".join(wrong)


@OF_TYPES
def test_every_aggregate_is_planned(frame, types):
    kept: list[Aggregates] = []

    def collected() -> Aggregates:
        kept.append(Aggregates())
        return kept[-1]

    accepted = []
    for text, _ in bound(called_with("aggregate", types), collected):
        accepted += [(text, call) for call in kept[-1].calls.values()]
    assert len(accepted) > 20 * len(types)
    rows = frame.withColumn("__order", sf.lit("0"))
    wrong = all_refused(accepted, lambda one: native_call(rows, one), lambda made: rows.agg(*made))
    assert not wrong, f"{len(wrong)} of {len(accepted)}\n" + "\n".join(wrong)


def all_refused(
    accepted: Sequence[tuple[str, T]], compiled: Callable[[T], Column], plan: Callable[[Sequence[Column]], DataFrame]
) -> list[str]:
    """What Spark does not plan."""
    wrong = []
    for start in range(0, len(accepted), AT_ONCE):
        columns = []
        for text, expression in accepted[start : start + AT_ONCE]:
            try:
                columns.append((text, compiled(expression)))
            except Exception as problem:  # noqa: BLE001 - whatever Spark says is the finding
                wrong.append(f"{text}: {str(problem).splitlines()[0]}")
        wrong += refused(plan, columns)
    return wrong
