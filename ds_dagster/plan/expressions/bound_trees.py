"""Bound trees: typed expressions after binding, and functions that build them.

A bound tree holds only the node classes of :data:`BOUND_NODES`. ``exp.Column`` has one quoted identifier, the
internal name of a field; a function call is ``exp.Anonymous`` whose ``this`` is a key of
``ds_dagster.functions.table.FUNCTIONS``; a call of a user's function is a
:class:`~ds_dagster.sql.expressions.UserCall`; ``||`` has become CONCAT, ``%`` MOD, ILIKE LIKE, ``col['field']`` a
:class:`~ds_dagster.sql.expressions.FieldAccess`; a division of whole numbers is ``exp.IntDiv`` (truncates); CASE has
no subject; ``exp.Bracket`` indexes an ARRAY (from 1, NULL outside) or a MAP; ``exp.Struct`` holds one ``exp.Alias`` per
field; ``exp.Interval`` occurs only as a side of ``+`` and ``-``; :func:`cast_type` and :func:`cast_source` give the
types of a cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from ds_dagster.datatypes import BOOLEAN, DataType, Scalar
from ds_dagster.functions.table import ROW_FUNCTIONS
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.sql.expressions import CONNECTORS, FieldAccess, UserCall, balanced
from ds_dagster.sql.typetext import cast_node, type_of_node

BOUND_NODES: tuple[type[exp.Expression], ...] = (
    exp.Column,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Escape,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.TryCast,
    exp.Anonymous,
    UserCall,
    exp.Bracket,
    FieldAccess,
    exp.Array,
    exp.Struct,
    exp.Alias,
    exp.Interval,
    exp.Var,
    exp.Identifier,
    exp.DataType,
    exp.DataTypeParam,
    exp.ColumnDef,
)
"""Every class that may occur in a bound tree, parts of casts and intervals included."""


class Typed(NamedTuple):
    """A bound tree and its type; ``type`` None: a bare NULL, which fits every type."""

    tree: exp.Expression
    type: DataType | None
    nullable: bool


def cast_type(node: exp.Expression) -> DataType:
    """Target type of a ``Cast`` or ``TryCast``."""
    return type_of_node(node.args["to"])


def cast_source(node: exp.Expression) -> DataType | None:
    """Source type of a ``Cast`` or ``TryCast``; None for NULL without a type."""
    source = node.args.get("source")
    return None if source is None else type_of_node(source)


def converted(value: Typed, target: DataType, *, safe: bool = False) -> exp.Expression:
    """CAST (``safe``: TRY_CAST) of a value."""
    return cast_node(value.tree, value.type, target, safe=safe)


def changes(tree: exp.Expression) -> bool:
    """Whether a bound tree has another value each time it is computed for a row, like RAND()."""
    calls = (ROW_FUNCTIONS.get(str(call.this)) for call in tree.find_all(exp.Anonymous))
    return any(call is not None and not call.deterministic and not call.of_batch for call in calls)


def lowered(text: exp.Expression) -> exp.Expression:
    """LOWER of a text."""
    if isinstance(text, exp.Literal):
        return exp.Literal.string(str(text.this).lower())
    return exp.Anonymous(this="LOWER", expressions=[text])


def column(field: str) -> exp.Column:
    """A bound reference to a field."""
    return exp.Column(this=exp.Identifier(this=field, quoted=True))


def conjunction(conditions: Sequence[BoundExpression]) -> BoundExpression:
    """All of these conditions (at least one) as one."""
    first, *others = [condition.tree for condition in conditions]
    if not others:
        return BoundExpression(first, BOOLEAN, conditions[0].nullable)
    terms = [exp.Paren(this=first) if isinstance(first, exp.Or) else first]
    terms += [exp.Paren(this=tree) if isinstance(tree, CONNECTORS) else tree for tree in others]
    return BoundExpression(balanced(exp.And, terms), BOOLEAN, any(condition.nullable for condition in conditions))


def conjuncts(condition: BoundExpression) -> list[BoundExpression]:
    """The conditions an AND is made of, left to right."""
    pending, parts = [condition.tree], []
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.expression, node.this]
        else:
            parts.append(BoundExpression(node, BOOLEAN, condition.nullable))
    return parts


def widened(value: Typed, target: DataType) -> exp.Expression:
    """The tree of a value as that type: a cast, unless the types are equal or both are VARCHAR."""
    source = value.type
    if source == target or (
        isinstance(source, Scalar) and isinstance(target, Scalar) and source.name == target.name == "VARCHAR"
    ):
        return value.tree
    return converted(value, target)
