"""Rows and the constraints of their relation: counted, left out, or the end of their batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.checks.constraints import LEAVES_OUT
from ds_dagster.plan.constraint import Constraint
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.queries.progress import violations_metric
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import failure, opaque_condition, required

_VIOLATED = "__violated_"


def constrained(frame: DataFrame, constraints: Sequence[Constraint], relation: Relation, query: str) -> DataFrame:
    """The rows that stay, their violations counted.

    Every constraint is computed for every row, once. Deletes have no row to check.

    Args:
        frame: fields by their internal names; ``RECORD`` where a row is of one record.
        constraints: of the relation, over the frame's fields.
        relation: whose rows these are.
        query: name of the query, unique in its job.

    Raises (in the batch):
        CONSTRAINT_VIOLATED for a row against a constraint with FAIL.
    """
    if not constraints:
        return frame
    is_row = ~names.deleted(frame)
    violated = {f"{_VIOLATED}{c.name}": is_row & ~compile_expression(frame, c.condition) for c in constraints}
    violated = {name: sf.coalesce(condition, sf.lit(False)) for name, condition in violated.items()}
    place = _place(frame)
    rows = _counted(frame.withColumns(violated), constraints, place, violations_metric(query, relation))
    for constraint in constraints:
        stays = ~_violates(constraint)
        if constraint.on_violation == "fail":
            rows = rows.where(opaque_condition(required(stays, _failure(constraint, relation, place))))
        elif constraint.on_violation in LEAVES_OUT:
            rows = rows.where(opaque_condition(stays))
    return rows.drop(*violated)


def _counted(
    frame: DataFrame, constraints: Sequence[Constraint], place: Mapping[str, Column], metric: str
) -> DataFrame:
    """The same rows, counted by constraint, with the place of one row that violates it."""
    sample = sf.concat_ws("/", place["partition"], place["position"]) if place else sf.lit(None).cast("string")
    counts = [
        sf.struct(
            sf.count(sf.when(_violates(c), sf.lit(1))).alias("rows"),
            sf.max(sf.when(_violates(c), sample)).alias("sample"),
        ).alias(c.name)
        for c in constraints
    ]
    return frame.observe(metric, *counts)


def _violates(constraint: Constraint) -> Column:
    return names.field(f"{_VIOLATED}{constraint.name}")


def _place(frame: DataFrame) -> Mapping[str, Column]:
    """Which record a row is of; empty where it is not of one."""
    if names.RECORD not in frame.columns:
        return {}
    record = sf.col(names.RECORD)
    entity = sf.concat_ws(".", record.getField("store"), record.getField("entity"))
    return {"entity": entity, "partition": record.getField("partition"), "position": record.getField("offset")}


def _failure(constraint: Constraint, relation: Relation, place: Mapping[str, Column]) -> Column:
    row = sf.lit("a row")
    if place:
        row = sf.concat(
            *(sf.lit("the row of record "), place["position"], sf.lit(" of partition "), place["partition"]),
            *(sf.lit(" of "), place["entity"]),
        )
    return failure("CONSTRAINT_VIOLATED", relation=str(relation.name), constraint=constraint.name, row=row, **place)
