"""Rows of streams whose expressions fail: dropped, counted and, if there is a log, logged.

Our operator computes the expressions of one step together and catches failures per row, so a row fails as a whole.
Expressions that only a plan can compute (the current time) are computed outside of the operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.functions.table import ROW_FUNCTIONS
from ds_dagster.plan.checks.row_errors import PASSED, ignores_row_errors
from ds_dagster.plan.expressions.field_names import column_of, shown
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.query import Part, read_below
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.row_logs import PLACE, RowLogs, row_text
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.bad_records import bad_records_metric
from ds_dagster.spark.records.columns import opaque_condition

_GUARD = "__guard"


@dataclass(slots=True)
class RowErrors:
    """Computes expressions of one plan such that a failure drops the row.

    Attributes:
        query: name of the query, unique in its job.
        logs: the job's row logs, or None.
        log: the log for failing rows, or None.
        steps: number of the plan's steps that count failures so far.
    """

    query: str
    logs: RowLogs | None
    log: Relation | None
    steps: int = field(default=0)

    def computed(
        self, frame: DataFrame, expressions: Mapping[str, BoundExpression], node: Node, wants: frozenset[str]
    ) -> DataFrame:
        """The rows for which no expression fails, with the expressions as additional columns.

        Args:
            frame: rows of a stream.
            expressions: by the name of the new column.
            node: node of the rows; the log shows the relations that it reads.
            wants: technical columns of the result; ``RECORD`` is dropped if only the log needs it.
        """
        guarded = {name: expression for name, expression in expressions.items() if _may_fail(expression)}
        others = {name: expression for name, expression in expressions.items() if name not in guarded}
        rows = self._guarded(frame, guarded, node) if guarded else frame
        results = {name: compile_expression(frame, expression) for name, expression in others.items()}
        results |= {name: _result(frame, name, expression) for name, expression in guarded.items()}
        return rows.withColumns(results).drop(_GUARD, *({names.RECORD} - wants))

    def _guarded(self, frame: DataFrame, expressions: Mapping[str, BoundExpression], node: Node) -> DataFrame:
        fields = [field for field in frame.schema.fields if field.name != names.RECORD]
        type_ = spark_types.StructType(fields)
        row = sf.struct(*[names.field(field.name) for field in fields])
        columns = [compile_expression(frame, expression).alias(name) for name, expression in expressions.items()]
        rows = frame.withColumn(_GUARD, operators(frame.sparkSession).guard(row, type_, columns))
        reason = sf.col(_GUARD).getField("reason")
        self.steps += 1
        counted = rows.observe(
            bad_records_metric(f"row_errors_{self.query}_{self.steps}"),
            sf.count(sf.when(reason.isNotNull(), sf.lit(1))).alias("rows"),
        )
        if self.log is None or self.logs is None:
            return counted.where(opaque_condition(reason.isNull()))
        logged = self.logs.put(self.log, _entry(frame, reason, node))
        return counted.where(opaque_condition(sf.when(reason.isNull(), sf.lit(True)).otherwise(logged)))


def logged_place(errors: RowErrors | None, node: Node) -> frozenset[str]:
    """The technical column that a log of failing rows needs from a node's rows; none above a step with state, where a
    row is no longer from one record."""
    has_log = errors is not None and errors.log is not None
    return frozenset({names.RECORD}) if has_log and node.is_ordered else frozenset()


def _result(frame: DataFrame, name: str, expression: BoundExpression) -> Column:
    """A guarded value with the nullability of its expression: the state schema records whether a key may be NULL, and
    Spark compares it with that of a query without a guard. The second argument of COALESCE is never computed, since
    rows without a value are dropped before."""
    value = sf.col(_GUARD).getField("result").getField(name)
    unguarded = compile_expression(frame, expression)
    return value if frame.select(unguarded).schema[0].nullable else sf.coalesce(value, unguarded)


def _entry(frame: DataFrame, reason: Column, node: Node) -> Mapping[str, Column]:
    """The log's row: the input of the failing step as JSON, and the record if the row is from one record."""
    shown = [name for name in frame.columns if name not in names.TECHNICAL]
    text = row_text({column: name for name, column in _shown(shown).items()})
    has_place = names.RECORD in frame.columns
    return {
        **{name: sf.col(names.RECORD).getField(name) if has_place else sf.lit(None) for name in PLACE},
        "relation": sf.lit(", ".join(dict.fromkeys(str(relation.name) for relation in read_below(node)))),
        "value": text,
        "reason": reason,
    }


def _shown(fields: Sequence[str]) -> Mapping[str, str]:
    """Internal names → names of columns, prefixed with the source if two are equal."""
    short = {name: column_of(name) for name in fields}
    counts = Counter(short.values())
    return {name: text if counts[text] == 1 else shown(name) for name, text in short.items()}


def row_errors(part: Part, logs: RowLogs | None) -> RowErrors | None:
    """How failing rows of a part are handled; None if a failing row fails its batch."""
    if not ignores_row_errors(part.settings):
        return None
    return RowErrors(part.name, logs, part.error_log)


def _may_fail(expression: BoundExpression) -> bool:
    tree = expression.tree
    if isinstance(tree, PASSED):
        return False
    calls = tree.find_all(exp.Anonymous)
    return not any(ROW_FUNCTIONS[str(call.this)].of_batch and not call.expressions for call in calls)
