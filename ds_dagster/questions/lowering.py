"""Translates the tree of a question to DuckDB.

DuckDB compares and orders as the dialect does: ``//`` truncates, an overflow of a whole number is an error, NaN equals
itself and is the largest number, texts compare by their bytes. Differences are translated here: casts, decimals,
division by zero, array indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Protocol

from sqlglot import exp

from ds_dagster.catalog.user_function import UserFunction
from ds_dagster.datatypes import (
    BIGINT,
    MAX_DECIMAL_PRECISION,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructType,
    is_integer,
)
from ds_dagster.errors import error
from ds_dagster.functions.group_function import OnlyOver
from ds_dagster.functions.question import (
    ByTypes,
    Call,
    Computed,
    Native,
    computed_once,
    list_element,
    named,
    whole_quotient,
)
from ds_dagster.functions.table import GROUP_FUNCTIONS, OTHER_ROWS, ROW_FUNCTIONS
from ds_dagster.functions.values.aggregate import QuestionAggregate
from ds_dagster.functions.values.casts import EXACT, cast, fitted
from ds_dagster.plan.expressions.bound_trees import cast_type, changes
from ds_dagster.questions.binding import Question
from ds_dagster.questions.duck_types import duck_type, is_easy, keep_apart
from ds_dagster.questions.python_functions import user_function
from ds_dagster.questions.trees import (
    Aggregated,
    Elements,
    GroupingCall,
    branches,
    in_years,
    known_type,
    named_item,
    type_of,
)
from ds_dagster.sql.expressions import FieldAccess, UserCall


class Registry(Protocol):
    """Registers Python functions with DuckDB; see :class:`~ds_dagster.questions.engine.QuestionEngine`."""

    def computed(
        self,
        function: Callable[..., Any],
        arguments: Sequence[exp.Expression],
        types: Sequence[DataType],
        result: DataType,
        *,
        takes_nulls: bool,
        changes: bool = False,
    ) -> exp.Expression:
        """Register a Python function, and return a call of it."""


class Lowering:
    """Translates bound trees to DuckDB's.

    Args:
        registry: registers the Python functions that they need.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._made: dict[str, exp.Expression] = {}

    def question(self, question: Question) -> exp.Expression:
        """A whole question; its columns are cast to the types from the binder."""
        query = self.query(question.tree)
        assert isinstance(query, exp.Query)
        for select in branches(query):
            for item, (name, type_) in zip(list(select.expressions), question.columns, strict=True):
                typed = exp.Cast(this=item.unalias(), to=duck_type(type_))
                item.replace(named_item(typed, name))
        keep_apart(query)
        return query

    def query(self, tree: exp.Query) -> exp.Expression:
        """A SELECT and everything in it."""
        copied = tree.copy()
        assert isinstance(copied, exp.Expression)
        return self.lower(copied)

    def lower(self, node: exp.Expression) -> exp.Expression:
        """One node and those below it."""
        visit = VISITORS.get(type(node))
        if isinstance(node, REGISTERING):
            return self._once(node)
        if visit is not None:
            return visit(self, node)
        for child in list(node.iter_expressions()):
            child.replace(self.lower(child))
        return node

    def _once(self, node: exp.Expression) -> exp.Expression:
        """A node that may need a Python function. Equal trees over columns of equal types give the same call, as GROUP
        BY and ORDER BY need it; types count, since two sub-selects may have columns of the same name."""
        key = f"{node!r} {[str(type_of(column)) for column in node.find_all(exp.Column)]}"
        if key not in self._made:
            self._made[key] = VISITORS[type(node)](self, node)
        expression = self._made[key].copy()
        assert isinstance(expression, exp.Expression)
        return expression

    def lowered(self, nodes: Sequence[exp.Expression]) -> list[exp.Expression]:
        """Several nodes."""
        return [self.lower(node) for node in nodes]

    # values

    def visit_call(self, node: exp.Expression) -> exp.Expression:
        """A function of the dialect."""
        if str(node.this) not in ROW_FUNCTIONS:
            raise error("QUESTION_FUNCTION_NOT_THERE", name=str(node.this))
        meaning = ROW_FUNCTIONS[str(node.this)].question
        written = list(node.expressions)
        types = [type_of(argument) for argument in written]
        result = type_of(node)
        if result is None:
            raise error("INTERNAL", where=f"{node.this} has no type in a question")
        values = self.lowered([argument.copy() for argument in written])
        meaning = meaning.choose(result) if isinstance(meaning, ByTypes) else meaning
        if isinstance(meaning, Native):
            changing = [changes(argument) for argument in written]
            return computed_once(changing, values, lambda parts: meaning.build(Call(parts, written, types, result)))
        return self._computed(meaning, Call(values, written, types, result))

    def _computed(self, meaning: Computed, call: Call) -> exp.Expression:
        types = [known_type(tree) for tree in call.written]
        return self.registry.computed(
            meaning.make(call),
            call.arguments,
            types,
            call.result,
            takes_nulls=meaning.takes_nulls,
            changes=meaning.changes,
        )

    def visit_user_call(self, node: exp.Expression) -> exp.Expression:
        """A Python function of the user; a Java class of a jar is refused, since it runs only in Spark."""
        function: UserFunction = node.args["function"]
        if function.language != "python":
            raise error("QUESTION_FUNCTION_NOT_THERE", name=function.name)
        arguments = self.lowered(node.expressions)
        called = user_function(function)
        return self.registry.computed(called, arguments, function.types, function.returns, takes_nulls=True)

    def visit_cast(self, node: exp.Expression) -> exp.Expression:
        """CAST and TRY_CAST."""
        target, source = cast_type(node), type_of(node.this)
        value, safe = self.lower(node.this), isinstance(node, exp.TryCast)
        if source is None or (not safe and is_easy(source, target)):
            return exp.Cast(this=value, to=duck_type(target))

        def converted(inner: Any) -> Any:
            return cast(inner, source, target, safe=safe)

        return self.registry.computed(converted, [value], [source], target, takes_nulls=False)

    def visit_division(self, node: exp.Expression) -> exp.Expression:
        """Floats divide by zero to infinity or NaN; decimals fail and are rounded half up."""
        return self._exact(node, lambda left, right: EXACT.divide(left, right)) or self._binary(node)

    def visit_product(self, node: exp.Expression) -> exp.Expression:
        """Decimals keep the digits of their result."""
        return self._exact(node, lambda left, right: EXACT.multiply(left, right)) or self._binary(node)

    def visit_sum(self, node: exp.Expression) -> exp.Expression:
        """Numbers, or a time moved by an interval; a DATE stays a DATE."""
        result = type_of(node)
        if isinstance(result, Scalar) and result.name == "DECIMAL" and result.precision == MAX_DECIMAL_PRECISION:
            add = EXACT.subtract if isinstance(node, exp.Sub) else EXACT.add
            return self._exact(node, add) or self._binary(node)
        total = self._binary(node)
        moves = isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval)
        if not moves or result is None:
            return total
        return in_years(exp.Cast(this=exp.Paren(this=total), to=duck_type(result)))

    def _binary(self, node: exp.Expression) -> exp.Expression:
        left, right = self._sides(node)
        return type(node)(this=left, expression=right)

    def _sides(self, node: exp.Expression) -> list[exp.Expression]:
        """Both sides; whole numbers are cast to the type of the result. In DuckDB a literal has the type of the other
        side, so SMALLINT + 1 would overflow."""
        result = type_of(node)
        written = [node.this, node.expression]
        sides: list[exp.Expression] = [exp.Paren(this=side) for side in self.lowered(written)]
        if result is None or not is_integer(result):
            return sides
        has_type = [isinstance(side, exp.Column) and type_of(side) == result for side in written]
        typed = duck_type(result)
        return [
            side if has else exp.Cast(this=side, to=typed.copy()) for side, has in zip(sides, has_type, strict=True)
        ]

    def visit_whole_division(self, node: exp.Expression) -> exp.Expression:
        """Whole numbers, cut towards zero; division by zero fails."""
        changing = [changes(side) for side in (node.this, node.expression)]
        return computed_once(changing, self._sides(node), whole_quotient)

    def visit_interval(self, node: exp.Expression) -> exp.Expression:
        """``INTERVAL 'n unit'``."""
        text = f"{node.this.name.strip().lstrip('+')} {node.args['unit'].name}"
        return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("INTERVAL"))

    def _exact(self, node: exp.Expression, compute: Callable[[Decimal, Decimal], Decimal]) -> exp.Expression | None:
        result = type_of(node)
        if not isinstance(result, Scalar) or result.name != "DECIMAL":
            return None
        types = [known_type(side) for side in (node.this, node.expression)]

        def function(left: Decimal, right: Decimal) -> Decimal:
            if right == 0 and isinstance(node, exp.Div):
                raise ValueError("division by zero")
            return fitted(compute(left, right), result)

        sides = [self.lower(node.this), self.lower(node.expression)]
        return self.registry.computed(function, sides, types, result, takes_nulls=False)

    def visit_bracket(self, node: exp.Expression) -> exp.Expression:
        """An element of an ARRAY (from 1, NULL outside) or a value of a MAP."""
        if isinstance(type_of(node.this), MapType):
            return named("map_extract_value", self.lower(node.this), self.lower(node.expressions[0]))
        parts = [node.this, node.expressions[0]]
        return computed_once([changes(part) for part in parts], self.lowered(parts), list_element)

    def visit_field(self, node: exp.Expression) -> exp.Expression:
        """A field of a STRUCT."""
        return named("struct_extract", self.lower(node.this), exp.Literal.string(node.expression.name))

    def visit_array(self, node: exp.Expression) -> exp.Expression:
        """An ARRAY of values."""
        values = named("list_value", *self.lowered(node.expressions))
        type_ = type_of(node)
        return values if type_ is None else exp.Cast(this=values, to=duck_type(type_))

    def visit_struct(self, node: exp.Expression) -> exp.Expression:
        """A STRUCT of values with names."""
        pairs = [
            exp.PropertyEQ(this=field.args["alias"].copy(), expression=self.lower(field.this))
            for field in node.expressions
        ]
        type_ = type_of(node)
        struct = exp.Struct(expressions=pairs)
        return struct if type_ is None else exp.Cast(this=struct, to=duck_type(type_))

    # rows

    def visit_elements(self, node: exp.Expression) -> exp.Expression:
        """UNNEST: a column for each part of an element."""
        type_, listed = type_of(node.this), self.lower(node.this)
        if isinstance(type_, MapType):
            parts, listed = ["key", "value"], named("map_entries", listed)
        else:
            element = type_.element if isinstance(type_, ArrayType) else None
            parts = [part.name for part in element.fields] if isinstance(element, StructType) else []
        element_rows = named("unnest", listed)
        values = [named("struct_extract", element_rows.copy(), exp.Literal.string(part)) for part in parts]
        values = values or [element_rows]
        if node.args.get("ordinality"):
            values.append(named("generate_subscripts", listed.copy(), exp.Literal.number(1)))
        elements = exp.Select(
            expressions=[
                exp.alias_(value, name.name, quoted=True) for value, name in zip(values, node.expressions, strict=True)
            ]
        )
        return exp.Lateral(this=exp.Subquery(this=elements), alias=node.args["alias"].copy())

    def visit_aggregate(self, node: exp.Expression) -> exp.Expression:
        """An aggregate over the rows of its group."""
        return self._aggregate(node, lambda call: call)

    def visit_grouping(self, node: exp.Expression) -> exp.Expression:
        """GROUPING: to which grouping set of GROUP BY a row belongs."""
        return named("grouping", *self.lowered(node.expressions))

    def visit_window(self, node: exp.Expression) -> exp.Expression:
        """``f() OVER (…)``."""
        call = node.this
        partition = self.lowered(node.args.get("partition_by") or [])
        order = self.lower(node.args["order"]) if node.args.get("order") else None
        frame = node.args.get("spec")
        if frame is not None and isinstance(frame.args["start"], exp.Expression):
            frame.set("start", self.lower(frame.args["start"]))

        def over(inner: exp.Expression) -> exp.Expression:
            return exp.Window(this=inner, partition_by=partition, order=order, spec=frame, over="OVER").copy()

        if call.this in OTHER_ROWS:
            return over(named(OTHER_ROWS[call.this], *self.lowered(call.expressions)))
        return self._aggregate(call, over)

    def _aggregate(self, node: exp.Expression, over: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
        written = list(node.expressions)
        condition = node.args.get("condition")
        wanted = None if condition is None else self.lower(condition.copy())
        is_constant_per_row = condition is not None and not changes(condition)
        arguments = [
            _where(wanted, value) if wanted is not None and is_constant_per_row and _may_fail(argument) else value
            for argument, value in zip(written, self.lowered([argument.copy() for argument in written]), strict=True)
        ]

        def filtered(raw: exp.Expression, *conditions: exp.Expression | None) -> exp.Expression:
            all_of = [condition.copy() for condition in conditions if condition is not None]
            return over(exp.Filter(this=raw, expression=exp.Where(this=exp.and_(*all_of))) if all_of else raw)

        result = type_of(node) or BIGINT
        present = [exp.Not(this=exp.Is(this=argument.copy(), expression=exp.Null())) for argument in arguments]
        call = QuestionAggregate(
            arguments,
            [known_type(argument) for argument in written],
            bool(node.args.get("distinct")),
            result,
            lambda raw: filtered(raw, wanted),
            lambda raw: filtered(raw, wanted, *present),
            lambda function, parts, types, type_: self.registry.computed(
                function, parts, types, type_, takes_nulls=True
            ),
        )
        meaning = GROUP_FUNCTIONS[str(node.this)].question
        if isinstance(meaning, OnlyOver):
            raise error("QUESTION_AGGREGATE", name=str(node.this))
        return call.over(call.raw(meaning)) if isinstance(meaning, str) else meaning(call)


def _where(condition: exp.Expression, value: exp.Expression) -> exp.Expression:
    """A value of the rows that FILTER keeps: DuckDB computes the arguments of an aggregate for the other rows too."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _may_fail(argument: exp.Expression) -> bool:
    return not isinstance(argument, exp.Column | exp.Literal)


Visitor = Callable[[Lowering, exp.Expression], exp.Expression]
REGISTERING = (exp.Anonymous, UserCall, exp.Cast, exp.TryCast, exp.Div, exp.Mul, exp.Add, exp.Sub)
"""Nodes that may be translated to a Python function."""
VISITORS: Mapping[type[exp.Expression], Visitor] = MappingProxyType(
    {
        exp.Anonymous: Lowering.visit_call,
        UserCall: Lowering.visit_user_call,
        exp.Cast: Lowering.visit_cast,
        exp.TryCast: Lowering.visit_cast,
        exp.Div: Lowering.visit_division,
        exp.Mul: Lowering.visit_product,
        exp.Add: Lowering.visit_sum,
        exp.Sub: Lowering.visit_sum,
        exp.IntDiv: Lowering.visit_whole_division,
        exp.Interval: Lowering.visit_interval,
        exp.Bracket: Lowering.visit_bracket,
        FieldAccess: Lowering.visit_field,
        exp.Array: Lowering.visit_array,
        exp.Struct: Lowering.visit_struct,
        Elements: Lowering.visit_elements,
        Aggregated: Lowering.visit_aggregate,
        GroupingCall: Lowering.visit_grouping,
        exp.Window: Lowering.visit_window,
    }
)
"""Class of a node → its visit method; of all other nodes only the children are translated."""
