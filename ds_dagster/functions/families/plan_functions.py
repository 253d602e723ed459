"""Functions whose value is a field of the plan, not computed from arguments."""

from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.datatypes import BIGINT, VARCHAR, StructType
from ds_dagster.functions.function import Example, Function, signature


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFunction(Function):
    """A function whose value is a field of the plan.

    Attributes:
        plan: source of its value in a plan.
        no_question: why it is refused in questions; empty if it is not.
    """

    plan: str
    no_question: str = ""


_NO_RECORDS = "views and tables are read, not records"

PLAN_FUNCTIONS: tuple[PlanFunction, ...] = (
    PlanFunction(
        "ROWTIME",
        (signature("", BIGINT),),
        "the record's own timestamp, epoch milliseconds",
        kind="metadata",
        nulls="never",
        aliases=("ROW_TIMESTAMP",),
        examples=(Example("ROWTIME()", "1704067200000"),),
        plan="a field of its scan (plan/binding/scope.py)",
        no_question=_NO_RECORDS,
    ),
    PlanFunction(
        "ROWKEY",
        (signature("", VARCHAR),),
        "the record's key as text",
        kind="metadata",
        nulls="always",
        aliases=("ROW_KEY",),
        examples=(Example("ROWKEY()", "'k'"),),
        plan="a field of its scan (plan/expressions/record_fields.py)",
        no_question=_NO_RECORDS,
    ),
    PlanFunction(
        "ROWMETADATA",
        (signature("", StructType(())),),
        "the record's metadata: for Kafka topic, partition, offset, timestamp_type, headers; for Kinesis stream, "
        "partition_key, shard_id, sequence_number",
        kind="metadata",
        nulls="never",
        aliases=("ROW_METADATA",),
        examples=(Example("ROWMETADATA()->topic", "'clicks'"),),
        plan="a field of its scan (plan/expressions/record_fields.py)",
        no_question=_NO_RECORDS,
    ),
    PlanFunction(
        "GROUPING",
        (signature("any+", BIGINT),),
        "0 if a row of GROUPING SETS, ROLLUP or CUBE is grouped by the expression, else 1; for several expressions one "
        "bit each, the first one the highest",
        kind="grouping",
        nulls="never",
        aliases=("GROUPING_ID",),
        examples=(Example("GROUPING(k)", "0, 0, 0, 1"),),
        plan="a constant of each grouping set (plan/binding/grouping.py)",
    ),
)
