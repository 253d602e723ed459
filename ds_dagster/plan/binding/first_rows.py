"""The first row of each value by event time, as a stream with event time, so that a window can read it.

DISTINCT alone emits a value as soon as it arrives, and ROW_NUMBER() = 1 retracts its row for an earlier one; neither
has an event time. Below a window both wait: a value has the time of its first row and is emitted when the watermark has
passed it, so the first row, and its window, do not depend on the order of arrival.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN
from ds_dagster.plan.expressions.binder import column
from ds_dagster.plan.nodes.delta import Distinct, Weigh
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.over import Over, OverCall
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project

_COUNT = "first$count"


def first_rows(node: Node) -> Node:
    """The same rows, appended, if the node gives the first row of each value of a stream; other nodes unchanged."""
    return _first(node) or node


def _first(node: Node) -> Node | None:
    if isinstance(node, Filter | Project):
        below = _first(node.input)
        if below is None:
            return None
        return replace(node, input=below, key_names=()) if isinstance(node, Project) else replace(node, input=below)
    if isinstance(node, Distinct) and node.changelog == "append":
        return _of_distinct(node)
    return _of_rank(node) if isinstance(node, TopN) else None


def _of_distinct(node: Distinct) -> Node | None:
    rows = _appended(node.input)
    if rows is None:
        return None
    fields = tuple(BoundExpression(column(f.name), f.type, f.nullable) for f in rows.output)
    return _passed(_counted(rows, fields, _COUNT), rows)


def _of_rank(node: TopN) -> Node | None:
    """The rows of ROW_NUMBER() OVER (… ORDER BY the event time) = 1; None for other ranks."""
    rows = _appended(node.input)
    if rows is None or node.function != "ROW_NUMBER" or node.limit != 1 or len(node.order) != 1:
        return None
    (term,) = node.order
    is_time = isinstance(term.expression.tree, exp.Column) and term.expression.tree.name in rows.time_fields
    return _counted(rows, node.partition, node.rank) if is_time and not term.descending else None


def _appended(node: Node) -> Node | None:
    """The rows below a Weigh if they are only appended, else None."""
    if isinstance(node, Weigh) and node.input.changelog == "append":
        return None if any(below.is_stateful for below in node.walk()) else node.input
    if isinstance(node, Filter | Project):
        below = _appended(node.input)
        return None if below is None else replace(node, input=below)
    return None


def _counted(rows: Node, partition: tuple[BoundExpression, ...], name: str) -> Filter:
    """The first row of each partition by event time; rows of the same time are ordered by their columns."""
    count = OverCall(name, "COUNT", None, BIGINT, nullable=False)
    counted = Over(rows, partition, (count,), by_time=False, before=-1)
    is_first = exp.EQ(this=column(name), expression=exp.Literal.number(1))
    return Filter(counted, BoundExpression(is_first, BOOLEAN, nullable=False))


def _passed(node: Node, rows: Node) -> Project:
    passed = (Named(f.name, BoundExpression(column(f.name), f.type, f.nullable)) for f in rows.output)
    return Project(node, tuple(passed))
