"""Expressions of MATCH_RECOGNIZE: columns of pattern variables, FIRST and LAST, aggregates over a variable's rows.

A part that reads rows of the match becomes a :class:`~ds_dagster.plan.nodes.match.MatchValue`; the rest of the
expression reads it like a column. Meanings are Flink's: ``v.col`` is the column of the variable's last row so far, in
its own definition of the row that is tested; a column without a variable is of all rows of the match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, TIMESTAMP_LTZ, DataType
from ds_dagster.functions.function import FAMILIES
from ds_dagster.functions.table import FUNCTIONS, find_function
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, column
from ds_dagster.plan.expressions.field_names import own_field
from ds_dagster.plan.expressions.printing import AGGREGATES, identity_text
from ds_dagster.plan.nodes.match import MatchFunction, MatchValue
from ds_dagster.plan.nodes.node import BoundExpression

ALL_ROWS = ""
"""The variable every row of a match belongs to."""
AGGREGATED: frozenset[str] = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
REFUSED: dict[str, str] = {
    "PREV": "write LAST(column, 1) for the row before, within the match",
    "NEXT": "put the condition on the next variable and look back with LAST",
    "CLASSIFIER": "tell variables apart by their definitions, or by COUNT(variable.column)",
    "MATCH_NUMBER": "count the matches in the query that reads them",
    "MATCH_PROCTIME": "write MATCH_ROWTIME()",
}
"""Function of patterns that is not built → what to write instead."""


class MatchValues:
    """Values that one MATCH_RECOGNIZE needs, each once. ``alias``: first part of their names."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.found: dict[tuple[object, ...], MatchValue] = {}

    def add(
        self,
        function: MatchFunction,
        variable: str,
        argument: BoundExpression | None,
        type_: DataType,
        *,
        nullable: bool = True,
        offset: int = 0,
    ) -> Typed:
        """A reference to the value of these parts; equal values are one."""
        text = "*" if argument is None else identity_text(argument.tree)
        key = (function, variable, text, str(type_), offset)
        if key not in self.found:
            name = own_field(self.alias, f"{function.lower()}{len(self.found) + 1}")
            self.found[key] = MatchValue(name, function, variable, argument, type_, nullable, offset)
        call = self.found[key]
        return Typed(column(call.name), call.type, call.nullable)


class MatchBinder(ExpressionBinder):
    """Binds MEASURES and DEFINE.

    Args:
        scope: the one source whose rows are matched.
        clause: as in :class:`ExpressionBinder`.
        variables: of the pattern.
        values: collects the values of rows that are needed.
        defined: variable of the definition that is bound, None in MEASURES.
    """

    def __init__(
        self, scope: Scope, clause: str, variables: Sequence[str], values: MatchValues, defined: str | None = None
    ) -> None:
        super().__init__(scope, clause)
        self.variables = variables
        self.values = values
        self.defined = defined

    def bind(self, node: exp.Expression) -> Typed:
        """Bind a tree.

        Raises:
            UserError: PATTERN_…, and all of :class:`ExpressionBinder`.
        """
        if isinstance(node, exp.Column) or _is_metadata(node):
            inner = _RowBinder(self)
            return self._last(inner, inner.bind(node))
        if isinstance(node, exp.Filter) or type(node) in AGGREGATES:
            return self._aggregate(node)
        if isinstance(node, exp.Anonymous):
            name = str(node.this).upper()
            if name in REFUSED:
                raise self.refuse("PATTERN_FUNCTION", node, function=name, instead=REFUSED[name])
            visit = _CALLS.get(name)
            if visit is not None:
                return visit(self, node)
        return super().bind(node)

    def variable_of(self, name: str, node: exp.Expression) -> str:
        """The qualifier of a column, which must be a variable.

        Raises:
            UserError: PATTERN_VARIABLE_UNKNOWN.
        """
        if name not in self.variables:
            raise self.refuse("PATTERN_VARIABLE_UNKNOWN", node, name=name, known=self.variables)
        return name

    def _last(self, inner: _RowBinder, value: Typed) -> Typed:
        """The value in the last row of a variable; in its own definition, in the row that is tested."""
        variable = inner.variable()
        if self.defined is not None and variable in (ALL_ROWS, self.defined):
            return value
        assert value.type is not None
        argument = BoundExpression(value.tree, value.type, value.nullable)
        nullable = value.nullable or variable != ALL_ROWS
        return self.values.add("LAST", variable, argument, value.type, nullable=nullable)

    def _navigation(self, node: exp.Expression) -> Typed:
        """``FIRST(value[, n])``, ``LAST(value[, n])``."""
        name = cast("MatchFunction", str(node.this).upper())
        arguments = node.expressions
        if not 1 <= len(arguments) <= 2:
            shown = "(value) or (value, rows)"
            raise self.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=len(arguments), expected=shown)
        inner = _RowBinder(self, node)
        value = inner.expression(arguments[0])
        offset = self._offset(node, name, arguments[1:])
        if name == "LAST" and offset == 0:
            return self._last(inner, Typed(value.tree, value.type, value.nullable))
        return self.values.add(name, inner.variable(), value, value.type, offset=offset)

    def _offset(self, node: exp.Expression, name: str, written: Sequence[exp.Expression]) -> int:
        if not written:
            return 0
        number = written[0]
        if not isinstance(number, exp.Literal) or number.args.get("is_string") or not str(number.this).isdecimal():
            expected = "(value, a whole number)"
            types = [self.shown(argument) for argument in node.expressions]
            raise self.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=expected)
        return int(str(number.this))

    def _aggregate(self, node: exp.Expression) -> Typed:
        """An aggregate over the rows of one variable."""
        name = AGGREGATES.get(type(node), "")
        if name not in AGGREGATED or isinstance(node.this, exp.Distinct):
            shown = name or "an aggregate with FILTER"
            shown = f"{shown}(DISTINCT …)" if isinstance(node.this, exp.Distinct) else shown
            instead = "write COUNT, SUM, AVG, MIN or MAX of all rows of a variable, with CASE inside to filter them"
            raise self.refuse("PATTERN_FUNCTION", node, function=shown, instead=instead)
        function = cast("MatchFunction", name)
        if isinstance(node.this, exp.Star):
            return self.values.add(function, ALL_ROWS, None, BIGINT, nullable=False)
        inner = _RowBinder(self, node)
        value = inner.expression(node.this)
        signature = FUNCTIONS[name].signatures[0]
        if not FAMILIES[signature.word(0)](value.type):
            types = [str(value.type)]
            raise self.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=str(signature))
        type_ = signature.type_of([value.type])
        return self.values.add(function, inner.variable(), value, type_, nullable=function != "COUNT")

    def _match_rowtime(self, node: exp.Expression) -> Typed:
        """``MATCH_ROWTIME()``: event time of the last row of the match."""
        if node.expressions:
            count = len(node.expressions)
            raise self.refuse("FUNCTION_ARGUMENT_COUNT", node, function="MATCH_ROWTIME", count=count, expected="()")
        if self.defined is not None:
            instead = "write the event-time column"
            raise self.refuse("PATTERN_FUNCTION", node, function="MATCH_ROWTIME in DEFINE", instead=instead)
        return self.values.add("ROWTIME", ALL_ROWS, None, TIMESTAMP_LTZ, nullable=False)


_CALLS: dict[str, Callable[[MatchBinder, exp.Expression], Typed]] = {
    "FIRST": MatchBinder._navigation,
    "LAST": MatchBinder._navigation,
    "MATCH_ROWTIME": MatchBinder._match_rowtime,
}


class _RowBinder(ExpressionBinder):
    """Binds an expression over one row: its columns are all of one variable. ``call``: the call around it."""

    def __init__(self, outer: MatchBinder, call: exp.Expression | None = None) -> None:
        super().__init__(outer.scope, outer.clause)
        self.outer = outer
        self.call = call
        self.used: dict[str, exp.Expression] = {}

    def variable(self) -> str:
        """The variable of the columns; :data:`ALL_ROWS` if none is named.

        Raises:
            UserError: PATTERN_VARIABLES_MIXED.
        """
        if len(self.used) > 1:
            names = [name or "(none)" for name in self.used]
            node = self.call or next(iter(self.used.values()))
            raise self.refuse("PATTERN_VARIABLES_MIXED", node, expression=self.shown(node), variables=names)
        return next(iter(self.used), ALL_ROWS)

    def bind(self, node: exp.Expression) -> Typed:
        """Bind a tree whose columns are of one row."""
        if isinstance(node, exp.Column):
            named = node.args.get("table") is not None
            self.used.setdefault(self.outer.variable_of(node.table, node) if named else ALL_ROWS, node)
            return self.visit_column(exp.Column(this=node.this.copy()))
        if _is_metadata(node):
            return self._metadata(node)
        is_call = isinstance(node, exp.Anonymous) and str(node.this).upper() in {*_CALLS, *REFUSED}
        if is_call or isinstance(node, exp.Filter) or type(node) in AGGREGATES:
            call = self.call or node
            raise self.refuse("PATTERN_NESTED", node, inner=self.shown(node), outer=self.shown(call))
        return super().bind(node)

    def _metadata(self, node: exp.Expression) -> Typed:
        """``rowtime(variable)`` and other metadata functions."""
        named = node.expressions[0] if len(node.expressions) == 1 else None
        if isinstance(named, exp.Column) and not named.table:
            self.used.setdefault(self.outer.variable_of(named.name, named), node)
            bare = exp.Anonymous(this=node.this, expressions=[])
            bare.meta.update(node.meta)
            return super().bind(bare)
        self.used.setdefault(ALL_ROWS, node)
        return super().bind(node)


def _is_metadata(node: exp.Expression) -> bool:
    function = find_function(str(node.this)) if isinstance(node, exp.Anonymous) else None
    return function is not None and function.kind == "metadata"
