"""Rows with the extreme value of their window: ``X JOIN (SELECT w, MAX(v) FROM X GROUP BY w) ON w = w AND v = max``.

This is the usual query for the best rows of each window. As a join it keeps every row of a window to find the few
whose value is the extreme, and reads X twice. One step over X gives the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ds_dagster.datatypes import DataType, Scalar, is_integer
from ds_dagster.plan.expressions.bound_trees import column
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node
from ds_dagster.plan.nodes.reading import plain_name
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.shaping import ShapeScope
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import MOST_DIGITS, WindowExtreme, WindowJoin

_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


def window_extremes(root: Sink) -> Sink:
    """Replace every such join of a plan by one step over its rows."""
    return replace(root, input=_over(root.input))


def _over(node: Node) -> Node:
    below = node.with_inputs(_over)
    step = _extreme(below) if isinstance(below, WindowJoin) and below.kind == "inner" else None
    return step or below


class _Rows(NamedTuple):
    """A node without the projections over it, and field → its place among the fields of ``core``."""

    core: Node
    places: Mapping[str, int]

    def place(self, expression: BoundExpression) -> int | None:
        """The place of a plain column, None for anything computed."""
        return self.places.get(plain_name(expression))


def _rows(node: Node) -> _Rows:
    if isinstance(node, Windowed):
        return _rows(node.input)
    if not isinstance(node, Project):
        return _Rows(node, {field.name: place for place, field in enumerate(node.output)})
    below = _rows(node.input)
    places = {named.name: below.place(named.expression) for named in node.columns}
    return _Rows(below.core, {name: place for name, place in places.items() if place is not None})


def _extreme(join: WindowJoin) -> Node | None:
    left, right = _rows(join.left), _rows(join.right)
    groups = right.core
    if not isinstance(groups, Aggregate) or not _is_extreme_of_window(groups):
        return None
    wanted = _places_read(groups, left)
    pairs = _pairs(join, right)
    if wanted is None or any(at is None or left.place(key) != wanted[at] for at, key in pairs):
        return None
    matched = {at: key for at, key in pairs if at is not None}
    starts = {at for at, named in enumerate(groups.group) if plain_name(named.expression) == _bounds(groups)[0]}
    if set(range(len(wanted))) - set(matched) - starts:
        return None
    names = {place: name for name, place in left.places.items()}
    columns = [names.get(wanted[right.places[f.name]], "") if f.name in right.places else "" for f in join.right.output]
    if not all(columns):
        return None
    call = len(groups.group)
    bounds = {at for at, named in enumerate(groups.group) if plain_name(named.expression) in _bounds(groups)}
    keys = tuple(key for at, key in sorted(matched.items()) if at not in bounds and at != call)
    rows = WindowExtreme(join.left, join.left_end, matched[call], keys, groups.calls[0].function == "MAX")
    passed = [_passed(field.name, field) for field in join.left.output]
    passed += [_passed(name, field) for name, field in zip(columns, join.right.output, strict=True)]
    return Project(rows, tuple(passed))


def _is_extreme_of_window(groups: Aggregate) -> bool:
    """Whether groups of a closed window have one result: the extreme of values that a BIGINT can hold."""
    if groups.window is None or groups.updates or len(groups.calls) != 1:
        return False
    (call,) = groups.calls
    plain = call.function in ("MAX", "MIN") and not call.distinct and call.filter is None
    keeps_late = any(isinstance(node, Window) and node.late is not None for node in groups.walk())
    return plain and not keeps_late and call.argument is not None and _is_whole_number(call.argument.type)


def _is_whole_number(type_: DataType) -> bool:
    if is_integer(type_):
        return True
    if not isinstance(type_, Scalar):
        return False
    return type_.name in _TIMES or (type_.name == "DECIMAL" and (type_.precision or 10) <= MOST_DIGITS)


def _places_read(groups: Aggregate, left: _Rows) -> list[int] | None:
    """For each group and the result, the place of its field among the rows' fields; None unless these rows are those of
    the left side."""
    rows = _rows(groups.input)
    scope = ShapeScope()
    if rows.core.whole_shape(scope) != left.core.whole_shape(scope):
        return None
    (call,) = groups.calls
    places = [rows.place(named.expression) for named in groups.group]
    places.append(rows.place(call.argument) if call.argument is not None else None)
    return [place for place in places if place is not None] if None not in places else None


def _pairs(join: WindowJoin, right: _Rows) -> list[tuple[int | None, BoundExpression]]:
    """The equalities of ON: place of the right side's field (None if it is computed), and expression of the left side.
    Every pair is a condition: two of them may be about one field."""
    end = next(field for field in join.left.output if field.name == join.left_end)
    ends = (right.places.get(join.right_end), BoundExpression(column(end.name), end.type, end.nullable))
    keys = zip(join.left_keys, join.right_keys, strict=True)
    return [ends, *((right.place(of_right), of_left) for of_left, of_right in keys)]


def _passed(name: str, field: Field) -> Named:
    return Named(field.name, BoundExpression(column(name), field.type, field.nullable))


def _bounds(groups: Aggregate) -> tuple[str, str]:
    return ("", "") if groups.window is None else (groups.window.start, groups.window.end)
