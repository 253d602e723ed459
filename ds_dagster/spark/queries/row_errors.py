"""Rows of streams whose expressions fail: left out, counted and, where a log is named, kept.

The expressions of one step are computed together by an operator of ours that knows a row's failure from the batch's,
so a row fails as a whole. What only a plan can compute (the current time) stays outside of it.
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
    """How one plan computes expressions whose failures leave rows out.

    Attributes:
        query: name of the query, unique in its job.
        logs: of the job.
        log: where rows are kept, None for nowhere.
        steps: how many of its steps count failures by now.
    """

    query: str
    logs: RowLogs | None
    log: Relation | None
    steps: int = field(default=0)

    def computed(
        self, frame: DataFrame, expressions: Mapping[str, BoundExpression], node: Node, wants: frozenset[str]
    ) -> DataFrame:
        """The rows that have all these expressions, with them beside their columns.

        Args:
            frame: rows of a stream.
            expressions: by the name of the new column.
            node: whose rows these are; the log names what it reads.
            wants: technical columns of the result; what the log alone needs goes.
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
    """The technical column that a log of failing rows takes of a node's rows: above a step that keeps rows, a row is no
    longer that of one record."""
    has_log = errors is not None and errors.log is not None
    return frozenset({names.RECORD}) if has_log and node.is_ordered else frozenset()


def _result(frame: DataFrame, name: str, expression: BoundExpression) -> Column:
    """A guarded value, as nullable as its expression: state of a query without a guard says whether a key may be NULL,
    and Spark compares that. The expression behind the value is never computed; no row without a value comes here."""
    value = sf.col(_GUARD).getField("result").getField(name)
    unguarded = compile_expression(frame, expression)
    return value if frame.select(unguarded).schema[0].nullable else sf.coalesce(value, unguarded)


def _entry(frame: DataFrame, reason: Column, node: Node) -> Mapping[str, Column]:
    """The log's row: the input of the failing step, as JSON, and the record, if the row is of one."""
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
    """Internal names → those of the columns, with their source in front where two are called alike."""
    short = {name: column_of(name) for name in fields}
    counts = Counter(short.values())
    return {name: text if counts[text] == 1 else shown(name) for name, text in short.items()}


def row_errors(part: Part, logs: RowLogs | None) -> RowErrors | None:
    """How the rows of a part fail, None where they fail their batch."""
    if not ignores_row_errors(part.settings):
        return None
    return RowErrors(part.name, logs, part.error_log)


def _may_fail(expression: BoundExpression) -> bool:
    tree = expression.tree
    if isinstance(tree, PASSED):
        return False
    calls = tree.find_all(exp.Anonymous)
    return not any(ROW_FUNCTIONS[str(call.this)].of_batch and not call.expressions for call in calls)
