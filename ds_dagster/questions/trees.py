"""Nodes in the tree of a question besides bound expressions (``plan/expressions/bound_trees.py``), and the types that
are recorded on nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN, VARCHAR, DataType, Scalar
from ds_dagster.functions.question import computed_once, named
from ds_dagster.plan.expressions.bound_trees import cast_type
from ds_dagster.plan.expressions.field_names import unused_alias

TYPE = "ds_type"
"""Key of a bound node's type in its ``meta``."""


class Aggregated(exp.Expression):
    """A call of an aggregate or, inside ``exp.Window``, of a function of other rows.

    Args: ``this`` its name (text), ``expressions`` bound arguments (none: ``COUNT(*)``), ``distinct``, ``condition``
    of FILTER.
    """

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": False, "distinct": False, "condition": False}


class GroupingCall(exp.Expression):
    """``GROUPING(…)``; ``expressions``: its arguments, which are expressions of GROUP BY."""

    arg_types: ClassVar[dict[str, Any]] = {"expressions": True}


class Elements(exp.Expression):
    """The elements of an array or map of the rows to the left, as rows.

    Args: ``this`` the bound array or map, ``expressions`` the names of the columns (identifiers), ``ordinality``: the
    last of them is the number of the element.
    """

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": True, "ordinality": False, "alias": True}


def noted(tree: exp.Expression, type_: DataType | None) -> exp.Expression:
    """The node, with its type recorded on it."""
    if type_ is not None:
        tree.meta[TYPE] = type_
    return tree


def type_of(node: exp.Expression) -> DataType | None:
    """The type of a bound node; None for a bare NULL and for a number without a recorded type."""
    noted_type: DataType | None = node.meta.get(TYPE)
    if noted_type is not None:
        return noted_type
    if isinstance(node, exp.Cast | exp.TryCast):
        return cast_type(node)
    if isinstance(node, exp.Paren | exp.Neg):
        return type_of(node.this)
    if isinstance(node, exp.Anonymous) and node.this == "LOWER":  # comes from ILIKE, not from the user's text
        return VARCHAR
    if isinstance(node, exp.Literal):
        return VARCHAR if node.is_string else None
    if isinstance(node, exp.IntDiv):
        return BIGINT
    return BOOLEAN if isinstance(node, exp.Boolean | exp.Predicate | exp.Connector | exp.Not) else None


def named_item(tree: exp.Expression, name: str) -> exp.Alias:
    """An item of a SELECT with its name; sqlglot's own function would put the name inside a sub-select."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def branches(tree: exp.Expr) -> list[exp.Select]:
    """The SELECTs of all sides of a set operation, or the SELECT itself."""
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.SetOperation):
        return [*branches(tree.this), *branches(tree.expression)]
    return branches(tree.this)


def aggregates_in(tree: exp.Expression) -> Iterator[bool]:
    """True for each aggregate over a group: not for one with OVER, but for one inside of it."""
    if isinstance(tree, exp.Query):
        return
    if isinstance(tree, Aggregated) and not isinstance(tree.parent, exp.Window):
        yield True
    for child in tree.iter_expressions():
        yield from aggregates_in(child)


def ungrouped(tree: exp.Expression, grouped: set[str]) -> Iterator[exp.Column]:
    """Columns of an output that are neither in GROUP BY nor inside an aggregate; ``grouped``: texts (``repr``) of the
    expressions in GROUP BY."""
    is_over = isinstance(tree.parent, exp.Window)
    if isinstance(tree, exp.Query) or repr(tree) in grouped or (isinstance(tree, Aggregated) and not is_over):
        return
    if isinstance(tree, exp.Column):
        yield tree
        return
    for child in tree.iter_expressions():
        yield from ungrouped(child, grouped)


def _number_type(node: exp.Expression) -> DataType:
    """The type of a node without a recorded type: a number literal, or VARCHAR for NULL."""
    if isinstance(node, exp.Literal) and not node.is_string:
        text = str(node.this)
        if "e" in text.lower():
            return Scalar("DOUBLE")
        whole, _, fraction = text.partition(".")
        if fraction:
            return Scalar("DECIMAL", precision=max(len(whole.lstrip("0")) + len(fraction), 1), scale=len(fraction))
        return Scalar("INTEGER") if int(text) < 2**31 else BIGINT
    return Scalar("VARCHAR")


def known_type(node: exp.Expression) -> DataType:
    """The type of a bound node or of a number literal; VARCHAR for a bare NULL."""
    return type_of(node) or _number_type(node)


def in_years(time: exp.Expression) -> exp.Expression:
    """A time, computed once; the question fails for a time outside of the years 0001 to 9999."""

    def held(parts: Sequence[exp.Expression]) -> exp.Expression:
        (value,) = parts
        year = exp.Between(this=named("year", value), low=exp.Literal.number(1), high=exp.Literal.number(9999))
        is_held = exp.or_(exp.Is(this=value.copy(), expression=exp.Null()), year)
        fails = named("error", exp.Literal.string("a time lies outside of the years 0001 to 9999"))
        return exp.Case(ifs=[exp.If(this=is_held, true=value.copy())], default=fails)

    return computed_once([True], [time], held)


@dataclass(frozen=True, slots=True)
class FieldPlaces:
    """Sources and columns of a question's fields.

    Attributes:
        fields: internal name of a field → alias and column in the question.
        prefixes: alias in the question → first part of the internal names of its fields, unique among the sources.
    """

    fields: dict[str, tuple[str, str]] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)

    def copy(self) -> FieldPlaces:
        """A copy for a sub-select, which adds its own fields."""
        return FieldPlaces(dict(self.fields), dict(self.prefixes))

    def prefix(self, alias: str) -> str:
        """The prefix of an alias, see ``prefixes``; a new alias gets one."""
        others = {name for written, name in self.prefixes.items() if written != alias}
        return self.prefixes.setdefault(alias, unused_alias(alias, others))

    def placed(self, tree: exp.Expression) -> exp.Expression:
        """The tree with ``alias.column`` in place of internal field names; types on the nodes are kept."""

        def place(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column) or node.args.get("table"):
                return node
            alias, name = self.fields[node.name]
            place_column = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
            place_column.meta.update(node.meta)
            return place_column

        placed = tree.transform(place)
        assert isinstance(placed, exp.Expression)
        return placed
