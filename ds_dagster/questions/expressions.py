"""Expressions of a question: those of a continuous query, and also aggregates in any place, OVER and sub-selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ds_dagster.catalog.user_function import NO_CODE, UserCode
from ds_dagster.datatypes import BIGINT, BOOLEAN, DATE, VARCHAR, DataType, common_type, is_numeric, is_temporal
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.functions.families.ordered_aggregates import literal_part
from ds_dagster.functions.function import FAMILIES, Signature
from ds_dagster.functions.group_function import MadeOf, OnlyOver
from ds_dagster.functions.table import FUNCTIONS, GROUP_FUNCTIONS, OTHER_ROWS
from ds_dagster.plan.binding.scope import Scope, Visible
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, widened
from ds_dagster.plan.expressions.calls import aggregate_name
from ds_dagster.questions.trees import Aggregated, GroupingCall, noted

Columns = tuple[tuple[str, DataType], ...]
OVER_CLAUSES = ("the SELECT list", "ORDER BY")
"""Clauses that are computed after the groups, where OVER has its rows."""
_INTERVAL_KEY = "RANGE with an INTERVAL needs one DATE or TIMESTAMP in ORDER BY"
_NUMBER_KEY = "RANGE with a number needs one number in ORDER BY"
SubSelect = Callable[[exp.Expression], tuple[exp.Query, Columns]]
"""Binds a sub-select that may refer to columns of the SELECT around it."""


class InnerScope(Scope):
    """Names of a sub-select; other names are resolved in the SELECT around it.

    Args:
        span: position of the sub-select.
        outer: names of the SELECT around it, None if the sub-select must not use them.
        functions: user-defined functions.
    """

    __slots__ = ("outer",)

    def __init__(self, span: Span, outer: Scope | None, functions: UserCode = NO_CODE) -> None:
        super().__init__(span, functions=functions)
        self.outer = outer

    def resolve(self, node: exp.Column) -> Visible:
        """The column of a reference."""
        if not self.sources:
            if self.outer is None:
                raise error("FROM_MISSING", span=self.place(node))
            return self.outer.resolve(node)
        try:
            return Scope.resolve(self, node)
        except DsError as problem:
            if self.outer is None or problem.condition not in ("UNKNOWN_ALIAS", "UNKNOWN_COLUMN"):
                raise
            try:
                return self.outer.resolve(node)
            except DsError:
                raise problem from None


class QuestionBinder(ExpressionBinder):
    """Binds expressions of one clause.

    Args:
        scope: visible names.
        clause: name of the clause in messages.
        sub_select: binds sub-selects.
        allows_aggregates: whether aggregates are allowed.
    """

    def __init__(self, scope: Scope, clause: str, sub_select: SubSelect, *, allows_aggregates: bool = False) -> None:
        super().__init__(scope, clause)
        self.sub_select = sub_select
        self.allows_aggregates = allows_aggregates

    def bind(self, node: exp.Expression) -> Typed:
        """Bind a tree and record its type in it."""
        return self.completed(self._bound(node))

    def completed(self, bound: Typed) -> Typed:
        """Record the type of a bound part in its tree."""
        noted(bound.tree, bound.type)
        return bound

    def _bound(self, node: exp.Expression) -> Typed:
        if isinstance(node, exp.Window):
            return self._over(node)
        if isinstance(node, exp.Subquery | exp.Exists):
            return self._value(node)
        if isinstance(node, exp.In) and node.args.get("query"):
            return self._any_of(node)
        if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("GROUPING", "GROUPING_ID"):
            return self._grouping(node)
        call = node.this if isinstance(node, exp.Filter) else node
        name = aggregate_name(call)
        if name is None or not self.allows_aggregates:
            return super().bind(node)
        return self._aggregate(node, call, name, self._inside(f"an aggregate ({name})", aggregates=False))

    def _grouping(self, node: exp.Anonymous) -> Typed:
        """GROUPING. That GROUP BY has its arguments is checked together with the other columns."""
        arguments = [self.expression(argument).tree for argument in node.expressions]
        if not arguments or not self.allows_aggregates:
            raise self.refuse("GROUPING_ARGUMENT", node, function=str(node.this), expression=self.shown(node))
        return Typed(GroupingCall(expressions=arguments), BIGINT, nullable=False)

    def _inside(self, clause: str, *, aggregates: bool) -> QuestionBinder:
        return QuestionBinder(self.scope, clause, self.sub_select, allows_aggregates=aggregates)

    # sub-selects

    def _value(self, node: exp.Expression) -> Typed:
        tree, columns = self.sub_select(node.this)
        if isinstance(node, exp.Exists):
            return Typed(exp.Exists(this=tree), BOOLEAN, nullable=False)
        self._check_one(node, columns)
        return Typed(exp.Subquery(this=tree), columns[0][1], nullable=True)

    def _any_of(self, node: exp.Expression) -> Typed:
        value = self.expression(node.this)
        inner = node.args["query"]
        tree, columns = self.sub_select(inner.this if isinstance(inner, exp.Subquery) else inner)
        self._check_one(node, columns)
        type_ = common_type(value.type, columns[0][1])
        if type_ is None:
            raise self.refuse("OPERATOR_TYPES", node, operator="IN", left=value.type, right=columns[0][1])
        left = widened(Typed(value.tree, value.type, value.nullable), type_)
        return Typed(exp.In(this=left, query=exp.Subquery(this=tree)), BOOLEAN, nullable=True)

    def _check_one(self, node: exp.Expression, columns: Columns) -> None:
        if len(columns) != 1:
            raise self.refuse("QUESTION_ONE_COLUMN", node, count=len(columns))

    # aggregates

    def _aggregate(self, node: exp.Expression, call: exp.Expression, name: str, inner: QuestionBinder) -> Typed:
        function = GROUP_FUNCTIONS[name]
        if isinstance(function.question, OnlyOver):
            raise self.refuse("QUESTION_AGGREGATE", node, name=name)
        written, distinct = _arguments(call)
        if any(isinstance(argument, exp.Star) for argument in written):
            if name != "COUNT" or len(written) != 1 or distinct:
                raise self._unfit(node, name, ["*"])
            arguments: list[Typed] = []
        else:
            arguments = [inner.bind(argument) for argument in written]
        signature = function.signatures[0]
        self._check(node, name, signature, arguments, counts_rows=not arguments and name == "COUNT" and bool(written))
        takes_part = isinstance(function.spark, MadeOf) and function.spark.literal == "part"
        if takes_part and literal_part(written[1]) is None:
            raise self.refuse("PERCENTILE_PART", written[1], function=name)
        condition = inner.condition(node.expression.this) if isinstance(node, exp.Filter) else None
        tree = Aggregated(
            this=name,
            expressions=[argument.tree for argument in arguments],
            distinct=distinct and not function.once,
            condition=None if condition is None else condition.tree,
        )
        types = [argument.type for argument in arguments if argument.type is not None]
        return Typed(tree, signature.type_of(types) if types else BIGINT, function.nulls != "never")

    def _check(
        self, node: exp.Expression, name: str, signature: Signature, arguments: Sequence[Typed], *, counts_rows: bool
    ) -> None:
        if counts_rows:
            return
        if not arguments or not signature.accepts_count(len(arguments)):
            count = len(arguments)
            raise self.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=count, expected=str(signature))
        for place, argument in enumerate(arguments):
            if argument.type is None or not FAMILIES[signature.word(place)](argument.type):
                raise self._unfit(node, name, [str(argument.type or "NULL") for argument in arguments])

    def _unfit(self, node: exp.Expression, name: str, types: Sequence[str]) -> DsError:
        expected = str(FUNCTIONS[name].signatures[0])
        return self.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=list(types), expected=expected)

    # OVER

    def _over(self, node: exp.Window) -> Typed:
        if self.clause not in OVER_CLAUSES:
            raise self.refuse("OVER_MISPLACED", node, clause=self.clause)
        inner = self._inside("OVER", aggregates=self.allows_aggregates)
        function = node.this
        call = function.this if isinstance(function, exp.Filter) else function
        name = str(call.this).upper() if isinstance(call, exp.Anonymous) else aggregate_name(call) or ""
        if name in OTHER_ROWS and isinstance(function, exp.Filter):
            raise self.refuse("OVER_FUNCTION", node, function=f"{name} with FILTER")
        bound = self._of_rows(node, call, name, inner) if name in OTHER_ROWS else None
        if bound is None:
            aggregate = aggregate_name(call)
            if aggregate is None:
                raise self.refuse("QUESTION_AGGREGATE", node, name=name or type(call).__name__.upper())
            bound = self._aggregate(function, call, aggregate, inner)
        noted(bound.tree, bound.type)
        order = node.args.get("order")
        terms = order.expressions if order is not None else []
        keys = [inner.expression(term.this) for term in terms]
        window = exp.Window(
            this=bound.tree,
            partition_by=[inner.expression(part).tree for part in node.args.get("partition_by") or ()],
            order=exp.Order(expressions=[ordered(term, key.tree) for term, key in zip(terms, keys, strict=True)])
            if terms
            else None,
            spec=self._frame(node, [key.type for key in keys]),
            over="OVER",
        )
        return Typed(window, bound.type, bound.nullable)

    def _frame(self, node: exp.Window, keys: Sequence[DataType]) -> exp.WindowSpec | None:
        """The frame; where it begins is a constant that fits ORDER BY."""
        frame: exp.WindowSpec | None = node.args.get("spec")
        if frame is None:
            return None
        kind, start = frame.args["kind"], frame.args["start"]
        is_number = isinstance(start, exp.Literal) and not start.is_string
        if not isinstance(start, exp.Expression):
            reason = ""
        elif kind == "ROWS":
            reason = "" if is_number and str(start.this).isdecimal() else "ROWS takes a whole number"
        elif isinstance(start, exp.Interval):
            reason = "" if len(keys) == 1 and (is_temporal(keys[0]) or keys[0] == DATE) else _INTERVAL_KEY
        elif is_number:
            reason = "" if len(keys) == 1 and is_numeric(keys[0]) else _NUMBER_KEY
        else:
            reason = "RANGE takes a number or an INTERVAL"
        if reason:
            raise self.refuse("OVER_FRAME", node, reason=reason)
        return frame.copy()

    def _of_rows(self, node: exp.Window, call: exp.Expression, name: str, inner: QuestionBinder) -> Typed:
        arguments = [inner.bind(argument) for argument in call.expressions]
        function = FUNCTIONS[name]
        signature = function.signatures[0]
        if not signature.accepts_count(len(arguments)):
            count = len(arguments)
            raise self.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=count, expected=str(signature))
        if arguments and arguments[0].type is None:
            raise self.refuse("NULL_WITHOUT_TYPE", node)
        tree = Aggregated(this=name, expressions=[argument.tree for argument in arguments])
        types = [argument.type or VARCHAR for argument in arguments]
        return Typed(tree, signature.type_of(types), nullable=function.nulls != "never")


def ordered(term: exp.Expression, key: exp.Expression) -> exp.Ordered:
    """A bound term of ORDER BY; NULL is the smallest value unless the term has NULLS FIRST or NULLS LAST."""
    return exp.Ordered(this=key, desc=bool(term.args.get("desc")), nulls_first=bool(term.args.get("nulls_first")))


def _arguments(call: exp.Expression) -> tuple[list[exp.Expression], bool]:
    """Arguments of an aggregate, and whether it has DISTINCT."""
    written = list(call.expressions) if isinstance(call, exp.Anonymous) else [call.this]
    if len(written) == 1 and isinstance(written[0], exp.Distinct):
        return list(written[0].expressions), True
    return [argument for argument in written if argument is not None], False
