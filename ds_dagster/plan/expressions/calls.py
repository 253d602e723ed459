"""Calls inside expressions: scalar functions by their signatures, metadata of records, aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sqlglot import exp

from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    common_type,
    is_hashable,
    is_text,
)
from ds_dagster.errors import DsError
from ds_dagster.functions.function import FAMILIES, Function, Signature
from ds_dagster.functions.group_function import MadeOf
from ds_dagster.functions.table import (
    ALIASES,
    FUNCTIONS,
    GROUP_FUNCTIONS,
    KNOWN_LATER,
    MISPLACED,
    OF_OTHER_DIALECTS,
    find_function,
)
from ds_dagster.names import nearest
from ds_dagster.plan.expressions.arithmetic import arithmetic_type
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, column, conjunction, widened
from ds_dagster.plan.expressions.constants import check_unit, checked
from ds_dagster.plan.expressions.forms import expected_form, form_of, written_name
from ds_dagster.plan.expressions.printing import AGGREGATES, identity_text
from ds_dagster.plan.expressions.record_fields import FIELDS, ORDER_FIELD
from ds_dagster.plan.expressions.user_calls import bind_user_call, user_names
from ds_dagster.plan.nodes.aggregate import AggregateCall, AggregateFunction
from ds_dagster.plan.nodes.node import BoundExpression

NULL_AS: dict[str, DataType] = {
    "any": VARCHAR,
    "text": VARCHAR,
    "integer": INTEGER,
    "number": DOUBLE,
    "same_number": INTEGER,
    "boolean": BOOLEAN,
    "printable": VARCHAR,
    "bytes": VARBINARY,
    "timestamp": TIMESTAMP,
    "temporal": TIMESTAMP,
    "orderable": VARCHAR,
}
"""Argument word → type of a bare NULL at its place."""

_TRIMS = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}
AGGREGATE_NODES = (*AGGREGATES, exp.Anonymous)


def aggregate_name(node: exp.Expression) -> str | None:
    """Name of the aggregate that a node calls, None for any other node."""
    if isinstance(node, exp.Anonymous):
        function = find_function(str(node.this))
        return function.name if function is not None and function.kind == "aggregate" else None
    return AGGREGATES.get(type(node))


class Aggregates:
    """The aggregate calls of one SELECT, each once, in the order they were found."""

    def __init__(self) -> None:
        self.calls: dict[str, AggregateCall] = {}

    def add(
        self,
        function: AggregateFunction,
        argument: BoundExpression | None,
        condition: BoundExpression | None,
        type_: DataType,
        *,
        distinct: bool = False,
        order: BoundExpression | None = None,
    ) -> AggregateCall:
        """The call of these parts; equal calls are one."""
        parts = [
            function,
            str(distinct),
            *(identity_text(e.tree) if e else "*" for e in (argument, condition, order)),
        ]
        key = "|".join(parts)
        if key not in self.calls:
            name = f"{function.lower()}${len(self.calls) + 1}"
            nullable = FUNCTIONS[function].nulls != "never"
            self.calls[key] = AggregateCall(name, function, argument, type_, distinct, condition, nullable, order)
        return self.calls[key]


def bind_call(binder: ExpressionBinder, node: exp.Expression) -> Typed:
    """Bind a scalar function or a metadata function.

    Raises:
        UserError: UNKNOWN_FUNCTION, FUNCTION_ARGUMENT_COUNT, FUNCTION_ARGUMENT_TYPE, FORM_ARGUMENT_TYPE,
            GROUPING_ARGUMENT, RECORD_FIELD_UNKNOWN, FUNCTION_MISPLACED.
        NotYetError: FUNCTION_NOT_YET.
    """
    name, arguments = _spelled(node)
    function = find_function(name)
    if function is None and name.lower() in user_names(binder):
        return bind_user_call(binder, node, name, arguments)
    if name.upper() in MISPLACED:
        raise binder.refuse("FUNCTION_MISPLACED", node, name=name.upper(), instead=MISPLACED[name.upper()])
    if function is None:
        raise _unknown(binder, node, name)
    if function.kind == "aggregate":
        return bind_aggregate(binder, node)
    if function.kind == "grouping":
        return _grouping(binder, node, name)
    if function.kind == "metadata":
        return _metadata(binder, node, function.name, arguments)
    check_unit(binder, node, function, arguments)
    values = [binder.bind(argument) for argument in arguments]
    return _called(binder, node, function, values)


def _spelled(node: exp.Expression) -> tuple[str, list[exp.Expression]]:
    """Name and arguments of a call, whatever the class of its node."""
    if isinstance(node, exp.Coalesce):
        return "COALESCE", [node.this, *node.expressions]
    if isinstance(node, exp.Trim):
        removed = node.args.get("expression")
        name = _TRIMS.get(str(node.args.get("position") or ""), "TRIM")
        return name, [node.this, removed] if removed is not None else [node.this]
    if isinstance(node, exp.Extract):
        return "EXTRACT", [exp.Literal.string(node.this.name), node.expression]
    return str(node.this), list(node.expressions)


def _unknown(binder: ExpressionBinder, node: exp.Expression, name: str) -> DsError:
    if name.upper() in KNOWN_LATER:
        return binder.refuse("FUNCTION_NOT_YET", node, name=name.upper(), instead=KNOWN_LATER[name.upper()])
    if name.upper() in OF_OTHER_DIALECTS:
        return binder.refuse("UNKNOWN_FUNCTION", node, name=name, fix=OF_OTHER_DIALECTS[name.upper()])
    near = ", ".join(nearest(name, [*FUNCTIONS, *ALIASES, *map(str.upper, user_names(binder))], cutoff=0.7))
    own = f"declare your own with CREATE FUNCTION {name.lower()}; "
    own += "the functions of the dialect are on the page Functions of the documentation"
    return binder.refuse("UNKNOWN_FUNCTION", node, name=name, fix=f"did you mean {near}?" if near else own)


def _metadata(binder: ExpressionBinder, node: exp.Expression, name: str, arguments: Sequence[exp.Expression]) -> Typed:
    """``rowtime()`` or ``rowtime(alias)``; likewise ``rowkey()`` and ``rowmetadata()``."""
    scope = binder.scope
    if len(arguments) > 1 or any(not isinstance(argument, exp.Column) for argument in arguments):
        raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=len(arguments), expected="(source)")
    source = scope.source(arguments[0].name, arguments[0]) if arguments else scope.sources[0]
    if not source.rowtime:
        raise binder.refuse(
            "FUNCTION_NOT_YET", node, name=f"{name} over a sub-select", instead=f"select {name.lower()}() inside it"
        )
    if name in FIELDS:
        field = source.beside.get(FIELDS[name])
        if field is None:
            raise binder.refuse("RECORD_FIELD_UNKNOWN", node, function=name, relation=source.shown)
        return Typed(column(field.name), field.type, field.nullable)
    return Typed(
        column(source.rowtime),
        BIGINT,
        any(c.nullable for c in source.columns.values()) and source is not scope.sources[0],
    )


def _grouping(binder: ExpressionBinder, node: exp.Expression, name: str) -> Typed:
    """GROUPING over GROUPING SETS; plan/binding/grouping.py has put its value into the scope."""
    value = binder.scope.values.get(id(node))
    if value is None:
        shown = ", ".join(binder.shown(argument) for argument in node.expressions)
        raise binder.refuse("GROUPING_ARGUMENT", node, function=name, expression=shown or "nothing")
    return value


def _called(binder: ExpressionBinder, node: exp.Expression, function: Function, values: Sequence[Typed]) -> Typed:
    name, shown = written_name(node, function.name), " or ".join(map(str, function.signatures))
    fitting = [signature for signature in function.signatures if signature.accepts_count(len(values))]
    if not fitting:
        raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=len(values), expected=shown)
    signature = next((signature for signature in fitting if _accepts(signature, values)), None)
    if signature is None:
        types = [str(value.type) if value.type else "NULL" for value in values]
        form = form_of(node)
        if form:
            shown = expected_form(form, function.signatures)
            types = [types[position] for position in form.shown if position < len(types)]
            raise binder.refuse("FORM_ARGUMENT_TYPE", node, form=name, types=types, expected=shown)
        raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=shown)
    values = checked(binder, node, function, values)
    trees, types_ = _arguments(binder, node, function, signature, values)
    call = exp.Anonymous(this=function.name, expressions=trees)
    type_ = signature.type_of(types_, [_whole_number(value.tree) for value in values])
    return Typed(call, type_, _nullable(function, values))


def _whole_number(tree: exp.Expression) -> int | None:
    """The value of a literal, with or without a sign, None for every other expression."""
    if isinstance(tree, exp.Neg):
        below = _whole_number(tree.this)
        return None if below is None else -below
    is_number = isinstance(tree, exp.Literal) and not tree.args.get("is_string") and str(tree.this).isdecimal()
    return int(str(tree.this)) if is_number else None


def _accepts(signature: Signature, values: Sequence[Typed]) -> bool:
    words = (signature.word(position) for position in range(len(values)))
    return all(value.type is None or FAMILIES[word](value.type) for word, value in zip(words, values, strict=True))


def _arguments(
    binder: ExpressionBinder, node: exp.Expression, function: Function, signature: Signature, values: Sequence[Typed]
) -> tuple[list[exp.Expression], list[DataType]]:
    """Trees and types after widening: ``same`` arguments share one type, an ``element`` has the element type of its
    ARRAY."""
    words = [signature.word(position) for position in range(len(values))]
    if words and words[0] == "same_number":
        first, second = (value.type or INTEGER for value in values)
        type_ = arithmetic_type("%", first, second)
        assert type_ is not None
        return [value.tree for value in values], [type_] * len(values)
    wanted = _wanted(binder, node, function, words, values)
    return [widened(value, type_) for value, type_ in zip(values, wanted, strict=True)], wanted


def _wanted(
    binder: ExpressionBinder, node: exp.Expression, function: Function, words: Sequence[str], values: Sequence[Typed]
) -> list[DataType]:
    alike = [value for word, value in zip(words, values, strict=True) if word.startswith("same")]
    shared = binder.unify(node, alike, f"the arguments of {written_name(node, function.name)}")[1] if alike else None
    types: list[DataType] = []
    for word, value in zip(words, values, strict=True):
        if word.startswith("same"):
            type_ = shared
        elif word == "element":
            type_ = _element_type(binder, node, function, values[0], value)
        elif word == "scalar_array" and isinstance(value.type, ArrayType) and not is_text(value.type.element):
            type_ = ArrayType(VARCHAR)
        else:
            type_ = value.type or NULL_AS.get(word)
        if type_ is None:
            raise binder.refuse("NULL_WITHOUT_TYPE", node)
        types.append(type_)
    return types


def _element_type(
    binder: ExpressionBinder, node: exp.Expression, function: Function, array: Typed, value: Typed
) -> DataType | None:
    """The type of the array's elements, to which the value must widen."""
    if not isinstance(array.type, ArrayType):
        return None
    wanted = array.type.element
    if value.type is None or common_type(value.type, wanted) == wanted:
        return wanted
    types = [str(array.type), str(value.type)]
    name = written_name(node, function.name)
    raise binder.refuse(
        "FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=f"({array.type}, {wanted})"
    )


def _nullable(function: Function, values: Sequence[Typed]) -> bool:
    rules = {
        "always": True,
        "never": False,
        "any": any(value.nullable for value in values),
        "all": all(value.nullable for value in values),
    }
    return rules[function.nulls]


def bind_aggregate(binder: ExpressionBinder, node: exp.Expression) -> Typed:
    """Bind an aggregate: the call is collected, the result is a reference to its field.

    Raises:
        UserError: AGGREGATE_MISPLACED, FUNCTION_ARGUMENT_TYPE, FUNCTION_ARGUMENT_COUNT.
        NotYetError: FUNCTION_NOT_YET.
    """
    call = node.this if isinstance(node, exp.Filter) else node
    name = aggregate_name(call)
    if name is None:
        raise binder.refuse("EXPRESSION_NOT_YET", node, what="FILTER after a function that is not an aggregate")
    if binder.aggregates is None:
        inside = binder.clause.startswith("an aggregate")
        fix = (
            "aggregate in two steps, through a relation of its own"
            if inside
            else "write it in the SELECT list or in HAVING"
        )
        shown = written_name(node, name)
        raise binder.refuse("AGGREGATE_MISPLACED", node, function=shown, clause=binder.clause, fix=fix)
    function = GROUP_FUNCTIONS[name]
    if isinstance(function.spark, MadeOf):
        from ds_dagster.plan.expressions.made_of import bind_made_of

        return bind_made_of(binder, node, call, function, function.spark)
    argument, distinct = distinct_argument(binder, node, call, name)
    return bound_aggregate(binder, node, cast("AggregateFunction", name), argument, distinct)


def bound_aggregate(
    binder: ExpressionBinder,
    node: exp.Expression,
    name: AggregateFunction,
    argument: exp.Expression,
    distinct: bool,
    *,
    by: exp.Expression | None = None,
) -> Typed:
    """The call of an aggregate of the plan. ``by``: the order of FIRST_VALUE and LAST_VALUE; rows in which it is NULL
    do not count. None: event time."""
    assert binder.aggregates is not None
    inner = ExpressionBinder(binder.scope, f"an aggregate ({name})")
    bound = None if isinstance(argument, exp.Star) else inner.expression(argument)
    if distinct and bound is not None and not is_hashable(bound.type):
        types, shown = [str(bound.type)], f"{written_name(node, name)} DISTINCT"
        raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=shown, types=types, expected="(hashable)")
    condition = inner.condition(node.expression.this) if isinstance(node, exp.Filter) else None
    type_, by_time = _aggregate_type(binder, node, name, bound), GROUP_FUNCTIONS[name].by_time
    order = inner.expression(by) if by is not None else _order(binder, node, name) if by_time else None
    if order is not None and by is not None:
        is_set = exp.Not(this=exp.Is(this=order.tree.copy(), expression=exp.Null()))
        is_known = BoundExpression(is_set, BOOLEAN, nullable=False)
        condition = is_known if condition is None else conjunction([condition, is_known])
    call = binder.aggregates.add(name, bound, condition, type_, distinct=distinct, order=order)
    return Typed(column(call.name), call.type, call.nullable)


def _order(binder: ExpressionBinder, node: exp.Expression, name: str) -> BoundExpression:
    """The order of rows in time: the position of the record of the first relation of FROM."""
    source = binder.scope.sources[0]
    field = source.beside.get(ORDER_FIELD)
    if field is None:
        shown = written_name(node, name)
        instead = "write MIN or MAX of a column that orders the rows, or write it inside the sub-select"
        raise binder.refuse("FUNCTION_NOT_YET", node, name=f"{shown} over a sub-select", instead=instead)
    return BoundExpression(column(field.name), field.type, field.nullable)


def distinct_argument(
    binder: ExpressionBinder, node: exp.Expression, call: exp.Expression, name: str
) -> tuple[exp.Expression, bool]:
    """The argument of an aggregate, and whether each value counts once; False if DISTINCT makes no difference to it."""
    if isinstance(call, exp.Anonymous):
        if len(call.expressions) != 1:
            shown, count = written_name(node, name), len(call.expressions)
            raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=shown, count=count, expected="(value)")
        argument = call.expressions[0]
    else:
        argument = call.this
    if not isinstance(argument, exp.Distinct):
        return argument, False
    if len(argument.expressions) != 1:
        shown, count = written_name(node, name), len(argument.expressions)
        raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=shown, count=count, expected="(DISTINCT value)")
    return argument.expressions[0], not GROUP_FUNCTIONS[name].once


def _aggregate_type(
    binder: ExpressionBinder, node: exp.Expression, name: str, argument: BoundExpression | None
) -> DataType:
    function = FUNCTIONS[name]
    signature = function.signatures[0]
    if argument is None and name == "COUNT":
        return signature.type_of(())
    value = None if argument is None else Typed(argument.tree, argument.type, argument.nullable)
    if value is None or not _accepts(signature, [value]):
        types, shown = ["*" if value is None else str(value.type)], written_name(node, name)
        raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=shown, types=types, expected=str(signature))
    return signature.type_of([cast("DataType", value.type)])
