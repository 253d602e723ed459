"""Reads SELECT trees (calls, spans), and refuses clauses that are not valid in a query that never ends."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.sql.hints.mistakes import Mistake
from ds_dagster.sql.source import SourceText

_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
_FINITE_ONLY: dict[str, tuple[str, dict[str, str]]] = {
    "order": ("ORDER_BY_IN_PERSISTENT_QUERY", {}),
    "limit": ("LIMIT_IN_PERSISTENT_QUERY", {"clause": "LIMIT"}),
    "offset": ("LIMIT_IN_PERSISTENT_QUERY", {"clause": "OFFSET"}),
}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call, whatever its node class. ``name`` is upper case; ``distinct``: the arguments are DISTINCT."""

    name: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False


def function_call(node: exp.Expr) -> FunctionCall | None:
    """Name and arguments of a call; None for any other node.

    COUNT, SUM, AVG, MIN, MAX and COALESCE are sqlglot's nodes, every other function is ``exp.Anonymous``.
    """
    if isinstance(node, exp.Anonymous):
        return FunctionCall(str(node.this), *_arguments(node.expressions))
    if isinstance(node, exp.Coalesce):
        return FunctionCall("COALESCE", (node.this, *node.expressions))
    name = _AGGREGATES.get(type(node))
    return FunctionCall(name, *_arguments([node.this])) if name else None


def _arguments(written: list[exp.Expr]) -> tuple[tuple[exp.Expr, ...], bool]:
    if len(written) == 1 and isinstance(written[0], exp.Distinct):
        return tuple(written[0].expressions), True
    return tuple(written), False


def span_of(node: exp.Expr, otherwise: Span) -> Span:
    """Position of a node of a SELECT: the first position of the node and its parts.

    ``otherwise`` gives the file, and is returned if no part has a position.
    """
    parts = (node, *node.parts) if isinstance(node, exp.Column) else node.walk()
    places = [part.meta for part in parts if "start" in part.meta]
    if not places:
        return otherwise
    first = min(places, key=lambda meta: int(meta["start"]))
    length = int(first["end"]) - int(first["start"]) + 1
    line, column = int(first["line"]), int(first["col"])
    return Span(otherwise.file, line, column, line, column + length)


def own_span(node: exp.Expr, otherwise: Span) -> Span:
    """Position of the keyword a node was parsed from, such as UNION or OVER; otherwise as :func:`span_of`."""
    meta = node.meta
    if "start" not in meta:
        return span_of(node, otherwise)
    line, column = int(meta["line"]), int(meta["col"])
    return Span(otherwise.file, line, column, line, column + int(meta["end"]) - int(meta["start"]) + 1)


def is_simple(item: exp.Expr) -> bool:
    """Whether an expression, or an item of a SELECT, is a column or a constant alone: it has no calls and no
    sub-selects."""
    return isinstance(item.this if isinstance(item, exp.Alias) else item, exp.Column | exp.Star | exp.Literal)


def is_first_rows(node: exp.Expr) -> bool:
    """Whether a SELECT has ORDER BY with LIMIT and no DISTINCT: a query that never ends can keep these rows current."""
    return bool(
        isinstance(node, exp.Select)
        and node.args.get("order")
        and node.args.get("limit")
        and not node.args.get("distinct")
    )


def refuse_in_persistent_query(tree: exp.Expr, source: SourceText) -> list[Mistake]:
    """Mistakes for what is valid only in ``ds query``: ORDER BY, LIMIT, OFFSET, VALUES, SELECT without FROM."""
    mistakes: list[Mistake] = []
    for node in tree.walk():
        if isinstance(node, exp.Select | exp.SetOperation) and not is_first_rows(node):
            mistakes.extend(
                _at(argument_node, source, condition, params)
                for argument, (condition, params) in _FINITE_ONLY.items()
                if (argument_node := node.args.get(argument)) is not None
            )
        if isinstance(node, exp.Select) and node.args.get("from_") is None:
            mistakes.append(_at(node, source, "FROM_MISSING", {}))
        if isinstance(node, exp.Values):
            mistakes.append(_at(node, source, "VALUES_IN_PERSISTENT_QUERY", {}))
    return mistakes


def _at(node: exp.Expr, source: SourceText, condition: str, params: dict[str, str]) -> Mistake:
    owner = node if node.meta.get("start") is not None else next((p for p in node.walk() if "start" in p.meta), None)
    owner = owner or node.parent
    start, end = (int(owner.meta["start"]), int(owner.meta["end"])) if owner and "start" in owner.meta else (0, 0)
    return Mistake(source, start, end + 1, condition, params)
