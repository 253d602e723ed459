"""Ranks: the bound that a filter above sets, and the key of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.plan.binding.grouping import key_names
from ds_dagster.plan.expressions.binder import conjunction, conjuncts
from ds_dagster.plan.nodes.delta import DeltaJoin
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project

_SAME: Callable[[int], int] = lambda number: number  # noqa: E731
_ONE_LESS: Callable[[int], int] = lambda number: number - 1  # noqa: E731
_BOUNDS: Mapping[type[exp.Expression], tuple[str, Callable[[int], int], bool]] = MappingProxyType(
    {
        exp.LTE: ("this", _SAME, True),
        exp.LT: ("this", _ONE_LESS, True),
        exp.GTE: ("expression", _SAME, True),
        exp.GT: ("expression", _ONE_LESS, True),
    }
)
"""Comparison → side of a rank that it bounds from above, number → last rank that passes, whether the condition says
nothing else."""


def filtered(node: Node, condition: BoundExpression) -> Node:
    """A filter over a node; a rank below that the condition bounds gets this limit. A condition that says no more than
    the bound is left out, so that the rank need not be computed."""
    others: list[BoundExpression] = []
    for part in conjuncts(condition):
        bound = _bound(part.tree)
        bounded = _limited(node, bound[0], bound[1]) if bound is not None else None
        if bounded is None or bound is None:
            others.append(part)
            continue
        node = bounded
        if not bound[2]:
            others.append(part)
    if not others:
        return node
    return Filter(node, condition if len(others) == len(conjuncts(condition)) else conjunction(others))


def _bound(tree: exp.Expression) -> tuple[str, int, bool] | None:
    """(field, largest value that passes, whether that is all the condition says) of a comparison with a number."""
    if isinstance(tree, exp.EQ):
        for operand, other in ((tree.this, tree.expression), (tree.expression, tree.this)):
            if isinstance(operand, exp.Column) and (number := _number(other)) is not None:
                return operand.name, number, number == 1
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column):
        number = _number(tree.args["high"])
        return None if number is None else (tree.this.name, number, _number(tree.args["low"]) == 1)
    rule = _BOUNDS.get(type(tree))
    if rule is None:
        return None
    side, last, alone = rule
    column, number = tree.args[side], _number(tree.args["expression" if side == "this" else "this"])
    if not isinstance(column, exp.Column) or number is None:
        return None
    return column.name, last(number), alone


def _number(tree: exp.Expression) -> int | None:
    while isinstance(tree, exp.Paren | exp.Cast):
        tree = tree.this
    is_whole = isinstance(tree, exp.Literal) and not tree.is_string and str(tree.this).isdecimal()
    return int(str(tree.this)) if is_whole else None


def _limited(node: Node, field: str, limit: int) -> Node | None:
    """The node with the rank of ``field`` limited; None if the field is not a rank, or no row passes."""
    if limit < 1:
        return None
    if isinstance(node, TopN):
        if node.rank != field:
            return None
        return replace(node, limit=min(limit, node.limit or limit))
    if isinstance(node, Project):
        tree = next((named.expression.tree for named in node.columns if named.name == field), None)
        field = tree.name if isinstance(tree, exp.Column) else ""
    if isinstance(node, Filter | Project):
        inner = _limited(node.input, field, limit)
        return None if inner is None else replace(node, input=inner)
    if isinstance(node, DeltaJoin):
        return _limited_side(node, field, limit)
    return None


def _limited_side(node: DeltaJoin, field: str, limit: int) -> Node | None:
    """The join with a rank of one side limited, unless an outer join keeps rows that this side does not have."""
    left = _limited(node.left, field, limit) if node.kind != "full" else None
    if left is not None:
        return replace(node, left=left)
    right = _limited(node.right, field, limit) if node.kind == "inner" else None
    return None if right is None else replace(node, right=right)


def keyed(node: Node) -> Iterator[Node]:
    """The node, once with each key that a rank below can give its rows, the shortest key first."""
    if isinstance(node, TopN):
        yield from (replace(node, key_names=key) for key in _keys(node))
    elif isinstance(node, Filter):
        yield from (replace(node, input=inner) for inner in keyed(node.input))
    elif isinstance(node, Project):
        for inner in keyed(node.input):
            names, lost = key_names(inner, node.columns)
            if not lost:
                yield replace(node, input=inner, key_names=tuple(names[name] for name in inner.key))


def _keys(node: TopN) -> Iterator[tuple[str, ...]]:
    partition = node.partition_names
    if node.function == "ROW_NUMBER" and partition is not None:
        if node.limit == 1 and partition:
            yield partition
        yield (*partition, node.rank)
    if node.input.key:
        yield node.input.key
