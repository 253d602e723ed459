"""Rows and the constraints of their relation: counted, left out, put aside, or the end of their batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.constraint import Constraint
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.queries.progress import violations_metric
from ds_dagster.spark.queries.row_logs import PLACE, RowLogs, row_text
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import failure, opaque, opaque_condition, required

_VIOLATED = "__violated"
"""STRUCT of whether a row violates each constraint."""
_LEFT_OUT = "__left_out"
_ACTIONS = ("fail", "quarantine", "drop")


def repeated(root: Node) -> frozenset[str]:
    """Sources whose rows another source of the plan reads and checks too, from the same position on, as in a join of a
    relation with itself: of these the first one counts violations and puts rows aside."""
    counting: dict[str, Scan] = {}
    named: set[str] = set()
    for scan in root.walk():
        if not isinstance(scan, Scan) or not scan.constraints or scan.source_name in {*counting, *named}:
            continue
        if any(scan.way == other.way for other in counting.values()):
            named.add(scan.source_name)
        else:
            counting[scan.source_name] = scan
    return frozenset(named)


def constrained(
    frame: DataFrame, node: Scan | Sink, query: str, logs: RowLogs | None, *, is_repeated: bool = False
) -> DataFrame:
    """The rows that stay, their violations counted.

    Every constraint is computed for every row, once. FAIL comes before QUARANTINE, and that before DROP, for a row that
    violates several. Deletes have no row to check. Where rows replace one another, a row that is left out deletes its
    key: its older version would stay otherwise.

    Args:
        frame: fields by their internal names; ``RECORD`` where a row is of one record, and of a source its ``PAYLOAD``.
        node: has the constraints, over the frame's fields, and the relation whose rows these are.
        query: name of the query or the source, unique in its job.
        logs: of the job, None where it keeps none: rows that would be put aside are left out.
        is_repeated: rows are neither counted nor put aside here, see :func:`repeated`.

    Raises (in the batch):
        CONSTRAINT_VIOLATED, CONSTRAINT_VIOLATED_BY_GROUP: for a row against a constraint with FAIL.
    """
    constraints, relation = node.constraints, node.relation
    if not constraints:
        return frame
    is_row = ~names.deleted(frame)
    violated = {c.name: is_row & ~compile_expression(frame, c.condition) for c in constraints}
    fields = [sf.coalesce(condition, sf.lit(False)).alias(name) for name, condition in violated.items()]
    place = _place(frame)
    judged = frame.withColumn(_VIOLATED, sf.struct(*fields))
    rows = judged if is_repeated else _counted(judged, node, place, violations_metric(query))
    by_action = {action: [c for c in constraints if c.on_violation == action] for action in _ACTIONS}
    for constraint in by_action["fail"]:
        fails = _failure(constraint, relation, place)
        rows = rows.where(opaque_condition(required(~_violates(constraint), fails)))
    leave_out = _without_rows if node.is_final else _with_deletes
    if by_action["quarantine"]:
        rows = leave_out(rows, _stays(frame, node, by_action["quarantine"], None if is_repeated else logs))
    for constraint in by_action["drop"]:
        rows = leave_out(rows, ~_violates(constraint))
    return rows.drop(_VIOLATED)


def _without_rows(rows: DataFrame, stays: Column) -> DataFrame:
    return rows.where(opaque_condition(stays))


def _with_deletes(rows: DataFrame, stays: Column) -> DataFrame:
    """The same rows; those that do not stay delete their keys. The filter keeps them all: it has the condition computed
    once, whatever is read of the rows."""
    judged = rows.withColumn(_LEFT_OUT, opaque(~stays)).where(opaque_condition(sf.col(_LEFT_OUT).isNotNull()))
    return judged.withColumn(names.DELETED, names.deleted(rows) | sf.col(_LEFT_OUT)).drop(_LEFT_OUT)


def _stays(frame: DataFrame, node: Scan | Sink, constraints: Sequence[Constraint], logs: RowLogs | None) -> Column:
    """True for a row that violates none of them; another one is put into the quarantine."""
    violated = [sf.when(_violates(constraint), sf.lit(constraint.name)) for constraint in constraints]
    reason = sf.concat_ws(", ", *violated)
    if logs is None or node.quarantine is None:
        return reason == ""
    record = sf.col(names.RECORD) if names.RECORD in frame.columns else None
    entry = {
        **{name: sf.lit(None) if record is None else record.getField(name) for name in PLACE},
        "relation": sf.lit(str(node.relation.name)),
        "value": sf.col(names.PAYLOAD) if isinstance(node, Scan) else row_text(_row(node)),
        "reason": sf.concat(sf.lit("violates "), reason),
    }
    return sf.when(reason == "", sf.lit(True)).otherwise(logs.put(node.quarantine, entry))


def _row(sink: Sink) -> Mapping[str, str]:
    """Column of the result → field."""
    columns = (column.name for column in sink.relation.columns)
    return dict(zip(columns, sink.columns, strict=True))


def _counted(frame: DataFrame, node: Scan | Sink, place: Mapping[str, Column], metric: str) -> DataFrame:
    """The same rows, counted by ``relation.constraint``, with the place of one row that violates it."""
    sample = sf.concat_ws("/", place["partition"], place["position"]) if place else sf.lit(None).cast("string")
    counts = [
        sf.struct(
            sf.count(sf.when(_violates(c), sf.lit(1))).alias("rows"),
            sf.max(sf.when(_violates(c), sample)).alias("sample"),
        ).alias(f"{node.relation.name}.{c.name}")
        for c in node.constraints
    ]
    return frame.observe(metric, *counts)


def _violates(constraint: Constraint) -> Column:
    return sf.col(_VIOLATED).getField(constraint.name)


def _place(frame: DataFrame) -> Mapping[str, Column]:
    """Which record a row is of; empty where it is not of one."""
    if names.RECORD not in frame.columns:
        return {}
    record = sf.col(names.RECORD)
    entity = sf.concat_ws(".", record.getField("store"), record.getField("entity"))
    return {"entity": entity, "partition": record.getField("partition"), "position": record.getField("offset")}


def _failure(constraint: Constraint, relation: Relation, place: Mapping[str, Column]) -> Column:
    condition = "CONSTRAINT_VIOLATED" if place else "CONSTRAINT_VIOLATED_BY_GROUP"
    return failure(condition, relation=str(relation.name), constraint=constraint.name, **place)
