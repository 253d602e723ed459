"""Types that steps which keep rows cannot keep: Spark has no form of TIME for the state of operators of ours."""

from __future__ import annotations

from collections.abc import Iterator

from ds_dagster.datatypes import ArrayType, DataType, MapType, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN

KEEPING = (DeltaAggregate, DeltaJoin, Distinct, Over, TopN)


def kept_times(root: Node, span: Span) -> Iterator[DsError]:
    """STATE_TYPE_NOT_YET for the first step that would keep a TIME."""
    for node in root.walk():
        if isinstance(node, KEEPING):
            names = [column_of(f.name) for below in node.inputs for f in below.output if _holds_time(f.type)]
            if names:
                yield error("STATE_TYPE_NOT_YET", span=span, column=names[0])
                return


def _holds_time(type_: DataType) -> bool:
    if isinstance(type_, ArrayType):
        return _holds_time(type_.element)
    if isinstance(type_, MapType):
        return _holds_time(type_.key) or _holds_time(type_.value)
    if isinstance(type_, StructType):
        return any(_holds_time(field.type) for field in type_.fields)
    return type_.name == "TIME"
