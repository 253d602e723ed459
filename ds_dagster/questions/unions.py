"""The sides of UNION, EXCEPT and INTERSECT; and VALUES, rows of constants, as SELECTs without FROM under UNION ALL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sqlglot import exp

from ds_dagster.datatypes import DataType, common_type
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.expressions.binder import Typed, widened
from ds_dagster.questions.expressions import Columns, QuestionBinder
from ds_dagster.questions.trees import branches, named_item, noted
from ds_dagster.sql.expressions import balanced

Placed = Callable[[exp.Expression], exp.Expression]
"""Replaces internal field names in a bound tree by ``alias.column``."""


def bound_values(tree: exp.Values, binder: QuestionBinder, placed: Placed) -> tuple[exp.Query, Columns]:
    """The bound tree and its columns, ``column_1`` and so on. NULL takes the type of the other rows.

    Raises:
        UserError: BRANCH_TYPES_DIFFER, NULL_WITHOUT_TYPE, and the conditions of expressions.
    """
    rows = [[binder.bind(value) for value in row.expressions] for row in tree.expressions]
    columns = tuple(
        (f"column_{place + 1}", _common(tree, binder, place, [row[place].type for row in rows]))
        for place in range(len(rows[0]))
    )
    selects = [exp.Select(expressions=_items(row, columns, placed)) for row in rows]
    query = balanced(partial(exp.Union, distinct=False), selects)
    assert isinstance(query, exp.Query)
    return query, columns


def _common(tree: exp.Values, binder: QuestionBinder, place: int, types: Sequence[DataType | None]) -> DataType:
    common: DataType | None = None
    for type_ in types:
        if type_ is None:
            continue
        wider = type_ if common is None else common_type(common, type_)
        if wider is None:
            shown = [str(common), str(type_)]
            raise binder.refuse("BRANCH_TYPES_DIFFER", tree, what=f"values of column {place + 1}", types=shown)
        common = wider
    if common is None:
        raise binder.refuse("NULL_WITHOUT_TYPE", tree.expressions[0].expressions[place])
    return common


def _items(row: Sequence[Typed], columns: Columns, placed: Placed) -> list[exp.Expr]:
    pairs = zip(row, columns, strict=True)
    return [named_item(placed(widened(value, type_)), name) for value, (name, type_) in pairs]


def side_of(
    operation: exp.SetOperation, tree: exp.Query, columns: Columns, wanted: Columns, *, is_right: bool
) -> exp.Query:
    """A bound side of a set operation, cast to the types of the result, and in parentheses if needed.

    Args:
        operation: the unbound operation.
        tree: bound tree of the side.
        columns: columns of the side.
        wanted: these columns with the types of the result.
        is_right: the side is the right one.
    """
    side = _with_types(tree, columns, wanted)
    if not isinstance(side, exp.SetOperation):
        return side
    is_looser = isinstance(operation, exp.Intersect) and not isinstance(side, exp.Intersect)
    is_ended = any(side.args.get(clause) for clause in ("order", "limit", "offset"))
    return exp.Subquery(this=side) if is_right or is_looser or is_ended else side


def _with_types(tree: exp.Query, columns: Columns, wanted: Columns) -> exp.Query:
    if [type_ for _, type_ in columns] == [type_ for _, type_ in wanted]:
        return tree
    for select in branches(tree):
        for item, (name, source), (_, target) in zip(list(select.expressions), columns, wanted, strict=True):
            typed = widened(Typed(noted(item.unalias(), source), source, True), target)
            item.replace(named_item(typed, name))
    return tree


def order_position(written: exp.Literal, count: int, span: Span) -> int:
    """The place of a column, from 1, that a term of ORDER BY is; raises QUESTION_ORDER_POSITION."""
    text = str(written.this)
    if not text.isdecimal() or not 1 <= int(text) <= count:
        raise error("QUESTION_ORDER_POSITION", span=span, position=text, count=count)
    return int(text)


def set_limits(query: exp.Query, tree: exp.Expression) -> None:
    """Give a query the LIMIT and OFFSET that were written."""
    for clause in ("limit", "offset"):
        if tree.args.get(clause):
            query.set(clause, tree.args[clause].copy())
