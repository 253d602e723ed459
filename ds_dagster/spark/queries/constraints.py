"""Constraints of a relation: rows that violate them are counted, and dropped, quarantined, or fail their batch."""

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
    """Names of sources that repeat an earlier source of the plan: both read the same relation in the same way, as in a
    self-join. Only the first of them counts violations and quarantines rows."""
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
    """The rows that satisfy the constraints; violations are counted.

    Every constraint is computed once for every row. If a row violates several, FAIL comes before QUARANTINE, and
    QUARANTINE before DROP. Deletes have no row to check. In a changelog with updates, a row that is dropped or
    quarantined deletes its key, since otherwise its older version would remain.

    A row that violates a constraint with FAIL fails its batch with CONSTRAINT_VIOLATED or CONSTRAINT_VIOLATED_BY_GROUP.

    Args:
        frame: fields by their internal names; ``RECORD`` if each row is from one record; for a source with a quarantine
            also ``PAYLOAD``.
        node: the node with the constraints, over the frame's fields, and with the relation of the rows.
        query: name of the query or the source, unique in its job.
        logs: the job's row logs; if None, rows for quarantine are dropped.
        is_repeated: rows are neither counted nor quarantined here, see :func:`repeated`.
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
    """All rows; those that do not stay become deletes of their keys. The filter keeps every row: it makes Spark compute
    the condition once, whichever columns are read."""
    judged = rows.withColumn(_LEFT_OUT, opaque(~stays)).where(opaque_condition(sf.col(_LEFT_OUT).isNotNull()))
    return judged.withColumn(names.DELETED, names.deleted(rows) | sf.col(_LEFT_OUT)).drop(_LEFT_OUT)


def _stays(frame: DataFrame, node: Scan | Sink, constraints: Sequence[Constraint], logs: RowLogs | None) -> Column:
    """True for a row that violates none of the constraints; other rows go to the quarantine."""
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
    """Column of the sink's relation → field."""
    columns = (column.name for column in sink.relation.columns)
    return dict(zip(columns, sink.columns, strict=True))


def _counted(frame: DataFrame, node: Scan | Sink, place: Mapping[str, Column], metric: str) -> DataFrame:
    """The rows; violations are counted by ``relation.constraint``, with the place of one violating row as a sample."""
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
    """Entity, partition and position of a row's record; empty if a row is not from one record."""
    if names.RECORD not in frame.columns:
        return {}
    record = sf.col(names.RECORD)
    entity = sf.concat_ws(".", record.getField("store"), record.getField("entity"))
    return {"entity": entity, "partition": record.getField("partition"), "position": record.getField("offset")}


def _failure(constraint: Constraint, relation: Relation, place: Mapping[str, Column]) -> Column:
    condition = "CONSTRAINT_VIOLATED" if place else "CONSTRAINT_VIOLATED_BY_GROUP"
    return failure(condition, relation=str(relation.name), constraint=constraint.name, **place)
