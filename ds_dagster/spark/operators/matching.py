"""MATCH_RECOGNIZE: the plan's node as a call of the operator in our jar.

Before the operator, Spark computes expressions over a single row: conditions, and arguments of FIRST, LAST and
aggregates. Conditions over the match so far are compiled by Spark and evaluated inside the operator. After the
operator, Spark computes the measures over the values of a match.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.plan.nodes.match import Definition, Match, MatchValue
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.plan.patterns.pattern import ACCEPT, automaton, variables
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.group_keys import compile_key
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.typemap import spark_sql, to_spark

_ALL_ROWS = _NOTHING = -1
_NO_LIMIT = -1


def match(spark: SparkSession, node: Match, frame: DataFrame) -> DataFrame:
    """One row per match: the partition's columns, the measures, and ``EVENT_TIME`` of its last row.

    Args:
        frame: the node's input with ``EVENT_TIME``, the watermark on it, and ``ORDER``.
    """
    return _MatchCall(spark, node, frame).frame()


class _MatchCall:
    def __init__(self, spark: SparkSession, node: Match, frame: DataFrame) -> None:
        self.spark = spark
        self.node = node
        self.input = frame
        self.row: dict[str, Column] = {}
        self.numbers = {name: index for index, name in enumerate(variables(node.pattern))}
        self.values = {value.name: index for index, value in enumerate(node.values)}
        self.conditions: list[BoundExpression] = []
        self.tested: set[int] = set()

    def frame(self) -> DataFrame:
        settings = self._settings()
        time = sf.col(names.EVENT_TIME)
        keys = [compile_key(self.input, named.expression) for named in self.node.partition]
        keys = keys or [sf.unix_micros(time).bitwiseAND(0)]  # one partition; Spark cannot group by a constant
        rows = self.input.select(
            *[key.alias(f"k{index}") for index, key in enumerate(keys)],
            sf.unix_micros(time).alias("ts"),
            sf.col(names.ORDER).alias("ord"),
            sf.struct(*self.row.values()).alias("row"),
            time.alias("et"),
        )
        matches = operators(self.spark).match_recognize(rows, len(keys), self._over_match(rows), settings)
        return self._measured(matches)

    def _settings(self) -> str:
        node = self.node
        definitions = {definition.variable: definition for definition in node.definitions}
        tests = [self._test(definitions.get(name)) for name in self.numbers]
        return json.dumps(
            {
                "steps": self._steps(),
                "tests": tests,
                "values": [self._value(index, value) for index, value in enumerate(node.values)],
                "order": [
                    {
                        "field": self._field(compile_expression(self.input, order.expression)),
                        "descending": order.descending,
                    }
                    for order in node.order
                ],
                "skip": node.skip.upper(),
                "skip_variable": self.numbers.get(node.skip_variable, _NOTHING),
                "within_micros": _NO_LIMIT if node.within_millis is None else 1000 * node.within_millis,
                "ttl_micros": 1000 * node.ttl_millis if node.ttl_millis else _NO_LIMIT,
            }
        )

    def _steps(self) -> list[list[int]]:
        """For each state of the automaton, a flat list of pairs: number of a variable, next state."""
        numbers = self.numbers | {ACCEPT: _NOTHING}
        return [
            [part for step in state for part in (numbers[step.variable], step.to)]
            for state in automaton(self.node.pattern).states
        ]

    def _field(self, value: Column, name: str = "") -> int:
        """Index of a field of the row that the operator stores; equal fields are stored once."""
        name = name or f"value {value}"
        self.row.setdefault(name, value.alias(name))
        return list(self.row).index(name)

    def _test(self, definition: Definition | None) -> dict[str, object]:
        if definition is None:
            return {"field": _NOTHING, "condition": _NOTHING, "needs": []}
        read = definition.condition.columns()
        needs = sorted(self.values[name] for name in read if name in self.values)
        if not needs:
            holds = sf.coalesce(compile_condition(self.input, definition.condition), sf.lit(False))
            return {"field": self._field(holds), "condition": _NOTHING, "needs": []}
        for name in sorted(read - self.values.keys()):
            self._field(field(name), name)
        self.tested.update(needs)
        self.conditions.append(definition.condition)
        return {"field": _NOTHING, "condition": len(self.conditions) - 1, "needs": needs}

    def _value(self, index: int, value: MatchValue) -> dict[str, object]:
        argument = _NOTHING
        if value.argument is not None:
            argument = self._field(_ARGUMENTS[value.function](value, compile_expression(self.input, value.argument)))
        return {
            "function": value.function,
            "variable": self.numbers.get(value.variable, _ALL_ROWS),
            "field": argument,
            "offset": value.offset,
            "type": to_spark(value.type).jsonValue(),
            "tested": index in self.tested,
        }

    def _over_match(self, rows: DataFrame) -> DataFrame | None:
        """Conditions over a row and the values of a match, as a projection that never runs; None if there are none."""
        if not self.conditions:
            return None
        fields = [spark_types.StructField(inner.name, inner.dataType) for inner in rows.select("row.*").schema.fields]
        fields += [spark_types.StructField(value.name, to_spark(value.type)) for value in self.node.values]
        nothing = self.spark.createDataFrame([], spark_types.StructType(fields))
        condition_columns = [
            compile_condition(nothing, condition).alias(f"c{index}") for index, condition in enumerate(self.conditions)
        ]
        return nothing.select(*condition_columns)

    def _measured(self, matches: DataFrame) -> DataFrame:
        partition = [sf.col(f"k{index}").alias(named.name) for index, named in enumerate(self.node.partition)]
        values = [sf.col("m").getField(f"v{index}").alias(value.name) for index, value in enumerate(self.node.values)]
        time = sf.timestamp_micros(sf.col("ts")).alias(names.EVENT_TIME)
        frame = matches.select(*partition, *values, time)
        measures = [compile_expression(frame, named.expression).alias(named.name) for named in self.node.measures]
        return frame.select(*[field(named.name) for named in self.node.partition], *measures, names.EVENT_TIME)


def _as_result(value: MatchValue, argument: Column) -> Column:
    return argument.cast(spark_sql(value.type))


def _as_it_is(_value: MatchValue, argument: Column) -> Column:
    return argument


def _to_average(value: MatchValue, argument: Column) -> Column:
    is_double = isinstance(to_spark(value.type), spark_types.DoubleType)
    return argument.cast("double") if is_double else argument


_ARGUMENTS: Mapping[str, Callable[[MatchValue, Column], Column]] = MappingProxyType(
    {
        "FIRST": _as_result,
        "LAST": _as_result,
        "COUNT": _as_it_is,
        "SUM": _as_result,
        "AVG": _to_average,
        "MIN": _as_result,
        "MAX": _as_result,
    }
)
"""Function → its argument in the type that the operator needs."""
