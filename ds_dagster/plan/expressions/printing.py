"""Text of an expression: for messages and EXPLAIN, and a strict form that is equal for equal meanings."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ds_dagster.functions.operators import OPERATORS
from ds_dagster.plan.expressions.forms import form_text
from ds_dagster.sql.expressions import ARITHMETIC, CONNECTORS, WRITTEN, FieldAccess, UserCall, spine
from ds_dagster.sql.typetext import type_of_node

ColumnText = Callable[[str], str]
Printer = Callable[[exp.Expression, "Printing"], str]

BINARY: dict[type[exp.Expression], str] = {
    exp.IntDiv: "DIV",
    **{operator.node: operator.text for operator in OPERATORS if issubclass(operator.node, exp.Binary)},
}
"""Operator with two sides → its text; `/` of whole numbers is bound to DIV."""
AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.VariancePop: "VAR_POP",
    exp.Variance: "VAR_SAMP",
    exp.StddevPop: "STDDEV_POP",
    exp.StddevSamp: "STDDEV_SAMP",
    exp.ArrayAgg: "ARRAY_AGG",
}
"""Node of an aggregate → its name; other aggregates are ``exp.Anonymous``."""


class Printing:
    """The text of columns, and whether parentheses follow the tree (strict) or the written text."""

    def __init__(self, column: ColumnText, strict: bool) -> None:
        self.column = column
        self.strict = strict

    def text(self, node: exp.Expression) -> str:
        """Text of a tree."""
        form = None if self.strict else form_text(node, lambda arguments: [*map(self.text, arguments)])
        if form is not None:
            return form
        printer = PRINTERS.get(type(node))
        return printer(node, self) if printer else type(node).__name__.upper()

    def joined(self, nodes: list[exp.Expression]) -> str:
        """Texts with commas between them."""
        return ", ".join([self.text(node) for node in nodes])


def expression_text(node: exp.Expression, column: ColumnText, *, strict: bool = False) -> str:
    """Text of a bound or source expression; ``column`` spells a column's (internal) name."""
    return Printing(column, strict).text(node)


def identity_text(node: exp.Expression) -> str:
    """Text that two bound expressions share only if they are the same; columns have their internal names."""
    return expression_text(node, str, strict=True)


def _column(node: exp.Expression, printing: Printing) -> str:
    table = node.args.get("table")
    if isinstance(node.this, exp.Star):
        return f"{table.name}.*" if table else "*"
    name = printing.column(node.this.this)
    return f"{table.name}.{name}" if table else name


def _literal(node: exp.Expression, _printing: Printing) -> str:
    if not node.args.get("is_string"):
        return str(node.this)
    return "'" + str(node.this).replace("'", "''") + "'"


def _paren(node: exp.Expression, printing: Printing) -> str:
    inner = printing.text(node.this)
    return inner if printing.strict else f"({inner})"


def _binary(node: exp.Expression, printing: Printing) -> str:
    text = f"{printing.text(node.this)} {BINARY[type(node)]} {printing.text(node.expression)}"
    return f"({text})" if printing.strict else text


def _chain(node: exp.Expression, printing: Printing) -> str:
    """A chain of operators, from left to right; the depth of the tree makes no difference to the text."""
    first, rest = spine(node)
    closing = ")" if printing.strict else ""
    texts = ["(" * len(rest) * bool(closing), printing.text(first)]
    texts += [f" {BINARY[operator]} {printing.text(operand)}{closing}" for operator, operand in rest]
    return "".join(texts)


def _prefix(word: str) -> Printer:
    def show(node: exp.Expression, printing: Printing) -> str:
        text = f"{word}{printing.text(node.this)}"
        return f"({text})" if printing.strict else text

    return show


def _in(node: exp.Expression, printing: Printing) -> str:
    text = f"{printing.text(node.this)} IN ({printing.joined(node.expressions)})"
    return f"({text})" if printing.strict else text


def _between(node: exp.Expression, printing: Printing) -> str:
    low, high = printing.text(node.args["low"]), printing.text(node.args["high"])
    text = f"{printing.text(node.this)} BETWEEN {low} AND {high}"
    return f"({text})" if printing.strict else text


def _case(node: exp.Expression, printing: Printing) -> str:
    parts = ["CASE"]
    if node.this is not None:
        parts.append(printing.text(node.this))
    for branch in node.args["ifs"]:
        parts += ["WHEN", printing.text(branch.this), "THEN", printing.text(branch.args["true"])]
    default = node.args.get("default")
    if default is not None:
        parts += ["ELSE", printing.text(default)]
    return " ".join([*parts, "END"])


def _cast(node: exp.Expression, printing: Printing) -> str:
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({printing.text(node.this)} AS {type_of_node(node.args['to'])})"


def _call(node: exp.Expression, printing: Printing) -> str:
    name = node.this if printing.strict else node.meta.get(WRITTEN, node.this)
    return f"{name}({printing.joined(node.expressions)})"


def _user_call(node: exp.Expression, printing: Printing) -> str:
    """The strict text holds the hash of the function's code: other code is another meaning."""
    function = node.args["function"]
    return f"{function.meaning if printing.strict else function.name}({printing.joined(node.expressions)})"


def _coalesce(node: exp.Expression, printing: Printing) -> str:
    return f"COALESCE({printing.joined([node.this, *node.expressions])})"


def _trim(node: exp.Expression, printing: Printing) -> str:
    removed = node.args.get("expression")
    words = " ".join(filter(None, (node.args.get("position"), printing.text(removed) if removed is not None else "")))
    return f"TRIM({words} FROM {printing.text(node.this)})" if words else f"TRIM({printing.text(node.this)})"


def _extract(node: exp.Expression, printing: Printing) -> str:
    return f"EXTRACT({node.this.name} FROM {printing.text(node.expression)})"


def _aggregate(node: exp.Expression, printing: Printing) -> str:
    name = AGGREGATES[type(node)]
    return f"{name if printing.strict else node.meta.get(WRITTEN, name)}({printing.text(node.this)})"


def _bracket(node: exp.Expression, printing: Printing) -> str:
    return f"{printing.text(node.this)}[{printing.joined(node.expressions)}]"


def _field(node: exp.Expression, printing: Printing) -> str:
    return f"{printing.text(node.this)}->{node.expression.name}"


def _array(node: exp.Expression, printing: Printing) -> str:
    return f"ARRAY[{printing.joined(node.expressions)}]"


def _struct(node: exp.Expression, printing: Printing) -> str:
    fields = [f"{printing.text(field.this)} AS {field.alias}" for field in node.expressions]
    return f"STRUCT({', '.join(fields)})"


def _interval(node: exp.Expression, _printing: Printing) -> str:
    return f"INTERVAL '{node.this.this}' {node.args['unit'].name}"


PRINTERS: dict[type[exp.Expression], Printer] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, _: "TRUE" if node.this else "FALSE",
    exp.Null: lambda _node, _: "NULL",
    exp.Star: lambda _node, _: "*",
    exp.Paren: _paren,
    exp.Neg: _prefix("-"),
    exp.Not: _prefix("NOT "),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys((*CONNECTORS, *ARITHMETIC), _chain),
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _call,
    UserCall: _user_call,
    exp.Coalesce: _coalesce,
    exp.Trim: _trim,
    exp.Extract: _extract,
    **dict.fromkeys(AGGREGATES, _aggregate),
    exp.Distinct: lambda node, printing: "DISTINCT " + printing.joined(node.expressions),
    exp.Filter: lambda node, printing: (
        f"{printing.text(node.this)} FILTER (WHERE {printing.text(node.expression.this)})"
    ),
    exp.Bracket: _bracket,
    FieldAccess: _field,
    exp.Array: _array,
    exp.Struct: _struct,
    exp.Interval: _interval,
}
"""Node → its text."""
