"""UNION, INTERSECT, EXCEPT and SELECT DISTINCT: columns are paired by position, NULL equals NULL.

Appended rows stay appended through UNION ALL, UNION and DISTINCT; INTERSECT and EXCEPT count each row on both sides,
since a row of one side changes the result of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ds_dagster.catalog.records import Findings
from ds_dagster.datatypes import BIGINT, BOOLEAN, INTEGER, DataType, common_type, is_hashable
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.binding.selected import Selected, SelectItem
from ds_dagster.plan.binding.sources import Naming
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import Typed, column, conjunction, widened
from ds_dagster.plan.expressions.field_names import alias_of, field_name, own_field
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.plan.nodes.delta import DeltaAggregate, Distinct
from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node
from ds_dagster.plan.nodes.rows import Filter, Project
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import QueryTree
from ds_dagster.sql.lowering import own_span

BindPart = Callable[[QueryTree], Selected]
_ON_THE_RIGHT: dict[type[exp.SetOperation], type[exp.Expression]] = {exp.Intersect: exp.GT, exp.Except: exp.EQ}
"""Set operation → comparison with 0 of a row's count on the right side: some rows, or none."""


class SetBinder:
    """Binds one set operation.

    Args:
        bind: binds one of its SELECTs.
        naming: internal names of the query.
        findings: collects warnings.
        span: where the query begins.
    """

    def __init__(self, bind: BindPart, naming: Naming, findings: Findings, span: Span) -> None:
        self.bind = bind
        self.naming = naming
        self.findings = findings
        self.span = span

    def operation(self, tree: exp.SetOperation) -> Selected:
        """The rows of a set operation.

        Raises:
            UserError: SET_COLUMN_COUNT, SET_COLUMN_TYPES, DUPLICATE_COLUMN, DISTINCT_NESTED.
            UnsupportedError: SET_OPERATION_ALL. NotYetError: STATEFUL_CHAIN.
        """
        place = own_span(tree, self.span)
        if isinstance(tree, exp.Union):
            return self._union(tree, place)
        if not tree.args.get("distinct"):
            raise error("SET_OPERATION_ALL", span=place, operation=type(tree).__name__.upper())
        parts = [self.bind(tree.this), self.bind(tree.expression)]
        fields = self._fields(parts, place)
        self._check_scalar(parts[0], place)
        return self._compared(_ON_THE_RIGHT[type(tree)], parts, fields, place)

    def distinct(self, selected: Selected, span: Span) -> Selected:
        """SELECT DISTINCT over a bound SELECT.

        Raises:
            UserError: DISTINCT_NESTED, DUPLICATE_COLUMN. NotYetError: STATEFUL_CHAIN.
        """
        fields = self._fields([selected], span)
        self._check_scalar(selected, span)
        return self._deduplicated(self._branch(selected, fields, weights=True, span=span), [selected], fields)

    def _union(self, tree: exp.Union, place: Span) -> Selected:
        distinct = bool(tree.args.get("distinct"))
        parts = [self.bind(part) for part in _parts(tree, distinct)]
        fields = self._fields(parts, place)
        weights = any(part.node.changelog != "append" for part in parts)
        node = Union(tuple(self._branch(part, fields, weights=weights, span=place) for part in parts))
        if distinct:
            self._check_scalar(parts[0], place)
            return self._deduplicated(node, parts, fields)
        key = _told_apart(parts) if weights else ()
        keyed = Union(node.branches, tuple(fields[position].name for position in key))
        return _selected(keyed, parts, fields, [parts[0].items[position].name for position in key])

    def _fields(self, parts: Sequence[Selected], place: Span) -> list[Field]:
        """One field per position: the name of the first part, the common type of all parts."""
        first = parts[0]
        alias = self.naming.alias("rows")
        for part in parts[1:]:
            if len(part.items) != len(first.items):
                raise error("SET_COLUMN_COUNT", span=place, first=len(first.items), other=len(part.items))
        names: dict[str, Field] = {}
        for position, item in enumerate(first.items):
            if item.name in names:
                raise error("DUPLICATE_COLUMN", span=item.span, name=item.name, relation="the result")
            type_ = item.expression.type
            for part in parts[1:]:
                type_ = self._common(type_, part.items[position], item.name)
            nullable = any(part.items[position].expression.nullable for part in parts)
            names[item.name] = Field(field_name(alias, item.name), type_, nullable)
        return list(names.values())

    def _common(self, type_: DataType, item: SelectItem, name: str) -> DataType:
        common = common_type(type_, item.expression.type)
        if common is None:
            raise error("SET_COLUMN_TYPES", span=item.span, name=name, first=type_, other=item.expression.type)
        return common

    def _check_scalar(self, selected: Selected, place: Span) -> None:
        for item in selected.items:
            if not is_hashable(item.expression.type):
                raise error("DISTINCT_NESTED", span=place, name=item.name, type=item.expression.type)

    def _branch(
        self, part: Selected, fields: Sequence[Field], *, weights: bool, span: Span, side: int | None = None
    ) -> Project:
        """A part's items under the fields' names and types. ``side``: number of the part, as one more field."""
        if weights:
            check_over("a step", part.node, span)
        columns = [
            Named(field.name, BoundExpression(_as(item.expression, field.type), field.type, item.expression.nullable))
            for item, field in zip(part.items, fields, strict=True)
        ]
        if side is not None:
            number = BoundExpression(exp.Literal.number(side), INTEGER, nullable=False)
            columns.append(Named(_side(fields), number))
        return Project(weighted(part.node) if weights else part.node, tuple(columns))

    def _deduplicated(self, node: Node, parts: Sequence[Selected], fields: Sequence[Field]) -> Selected:
        distinct = Distinct(weighted(node))
        key = [] if distinct.changelog == "append" else [item.name for item in parts[0].items]
        return _selected(distinct, parts, fields, key)

    def _compared(
        self, on_the_right: type[exp.Expression], parts: Sequence[Selected], fields: Sequence[Field], place: Span
    ) -> Selected:
        """Count each row on the left and on the right, and filter the rows that the operation keeps."""
        branches = [self._branch(part, fields, weights=True, span=place, side=n) for n, part in enumerate(parts)]
        side = column(_side(fields))
        counts = [
            AggregateCall(f"{_side(fields)}{number}", "COUNT", None, BIGINT, filter=_is(exp.EQ, side, number))
            for number in (0, 1)
        ]
        group = tuple(Named(f.name, BoundExpression(column(f.name), f.type, f.nullable)) for f in fields)
        counted = DeltaAggregate(Union(tuple(branches)), group, tuple(counts), weighted=True)
        conditions = [_is(exp.GT, column(counts[0].name), 0), _is(on_the_right, column(counts[1].name), 0)]
        return _selected(
            Filter(counted, conjunction(conditions)), parts, fields, [item.name for item in parts[0].items]
        )


def _parts(tree: QueryTree, distinct: bool) -> list[QueryTree]:
    """The operands of nested UNIONs from left to right; below a UNION that removes duplicates ALL makes no
    difference."""
    parts: list[QueryTree] = []
    pending = [tree]
    while pending:
        part = pending.pop()
        inner = part.this if isinstance(part, exp.Subquery) and not _ends(part.this) else part
        if isinstance(inner, exp.Union) and not _ends(inner) and (distinct or not inner.args.get("distinct")):
            pending += [inner.expression, inner.this]
        else:
            parts.append(part)
    return parts


def _ends(tree: exp.Expression) -> bool:
    return any(tree.args.get(clause) for clause in ("order", "limit", "offset"))


def _told_apart(parts: Sequence[Selected]) -> list[int]:
    """Positions of a key of the union: the key that all parts share, and a literal that is different in each part.
    Empty without such a key."""
    names = [[item.name for item in part.items] for part in parts]
    keys = {frozenset(own.index(name) for name in part.key) for own, part in zip(names, parts, strict=True)}
    if len(keys) != 1 or not all(part.key or part.total for part in parts):
        return []
    for position in range(len(names[0])):
        values = [part.items[position].expression.tree for part in parts]
        if all(isinstance(value, exp.Literal) for value in values) and len(set(map(_told, values))) == len(parts):
            return sorted({position, *keys.pop()})
    return []


def _told(literal: exp.Expression) -> str | float:
    """The value of a literal: 1 and 1.0 are equal in the column of the result."""
    return str(literal.this) if literal.is_string else float(literal.this)


def _selected(node: Node, parts: Sequence[Selected], fields: Sequence[Field], key: Sequence[str]) -> Selected:
    pairs = zip(parts[0].items, fields, strict=True)
    items = [SelectItem(item.name, BoundExpression(column(f.name), f.type, f.nullable), item.span) for item, f in pairs]
    return Selected(node, tuple(items), parts[0].relation, tuple(key))


def _as(expression: BoundExpression, type_: DataType) -> exp.Expression:
    return widened(Typed(expression.tree, expression.type, expression.nullable), type_)


def _side(fields: Sequence[Field]) -> str:
    """Internal name of the field with a row's side; no column's name has two marks."""
    return own_field(alias_of(fields[0].name), "side")


def _is(operator: type[exp.Expression], value: exp.Expression, number: int) -> BoundExpression:
    return BoundExpression(operator(this=value.copy(), expression=exp.Literal.number(number)), BOOLEAN, nullable=False)
