"""Our sqlglot nodes inside SELECT bodies. Nodes that can be printed are listed in the generator's ``TRANSFORMS``:
sqlglot finds printing methods only for nodes of its own package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp

WRITTEN = "written"
"""Key in the ``meta`` of a function call: the name or form in the statement, if that differs from the function's name
(:data:`ds_dagster.plan.expressions.forms.FORMS`)."""
QueryTree = exp.Select | exp.SetOperation | exp.Subquery
"""A query: a SELECT, a set operation, or either of them in parentheses."""
AskedTree = QueryTree | exp.Values
"""A question (``ds query``): a query, or rows of constants."""


def written_as(form: str, node: exp.Expression) -> exp.Expression:
    """The node, marked with the form that was written."""
    node.meta[WRITTEN] = form
    return node


def read_from(form: str, function: str, *arguments: exp.Expression) -> exp.Expression:
    """The call of ``function`` that has the meaning of a form, marked with the form."""
    return written_as(form, exp.Anonymous(this=function, expressions=list(arguments)))


CONNECTORS: tuple[type[exp.Expression], ...] = (exp.And, exp.Or)
ARITHMETIC: tuple[type[exp.Expression], ...] = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def spine(node: exp.Expression) -> tuple[exp.Expression, list[tuple[type[exp.Expression], exp.Expression]]]:
    """The first operand of a chain of operators, and each operator with the operand after it, without recursion on the
    left. AND and OR give the terms of the whole chain, whatever the shape of its tree."""
    if isinstance(node, CONNECTORS):
        first, *others = _terms(node)
        return first, [(type(node), term) for term in others]
    operations: list[tuple[type[exp.Expression], exp.Expression]] = []
    while isinstance(node, ARITHMETIC):
        operations.append((type(node), node.expression))
        node = node.this
    return node, operations[::-1]


def _terms(node: exp.Expression) -> list[exp.Expression]:
    """Terms of one AND or OR, left to right; a parenthesis is one term."""
    terms, pending, kind = [], [node], type(node)
    while pending:
        term = pending.pop()
        if type(term) is kind:
            pending += [term.expression, term.this]
        else:
            terms.append(term)
    return terms


def without_parentheses(tree: exp.Expression) -> exp.Expression:
    """The expression inside parentheses; a sub-select keeps its own."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def balanced(node: Callable[..., exp.Expression], parts: Sequence[exp.Expression]) -> exp.Expression:
    """A tree of logarithmic depth that connects the parts (at least one) by an associative operator."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return node(this=balanced(node, parts[:middle]), expression=balanced(node, parts[middle:]))


class RelationRef(exp.Table):
    """``name [[AS] alias] [WITH ('p' = v)]`` in FROM or JOIN. ``properties``: list of ``statements.Property``."""

    arg_types: ClassVar[dict[str, Any]] = {**exp.Table.arg_types, "properties": False}


class WindowRef(exp.Expression):
    """A window function as a source: ``TUMBLE(rel, SIZE n unit)``, HOP, CUMULATE, SESSION.

    Args: ``this`` the windowed source (RelationRef or Subquery), ``function`` TUMBLE|HOP|CUMULATE|SESSION (text),
    ``size_millis`` (SIZE, of a SESSION its GAP) and ``step_millis`` (ADVANCE BY or STEP) as integers, ``alias``,
    ``properties`` as in RelationRef.
    """

    arg_types: ClassVar[dict[str, Any]] = {
        "this": True,
        "function": True,
        "size_millis": True,
        "step_millis": False,
        "alias": False,
        "properties": False,
    }


class StreamJoin(exp.Join):
    """A JOIN with an optional ``WITHIN n unit``: ``within`` is milliseconds (integer). A join with an UnnestRef may
    have no ``on``."""

    arg_types: ClassVar[dict[str, Any]] = {**exp.Join.arg_types, "within": False}


class UnnestRef(exp.Expression):
    """``UNNEST(value) [WITH ORDINALITY] [AS] alias [(column, …)]`` in a JOIN: ``this`` the value, ``ordinality``,
    ``columns`` Identifiers, ``alias`` as in RelationRef."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "ordinality": False, "alias": False, "columns": False}


class UserCall(exp.Expression):
    """A call of a user's function in a bound tree: ``function`` is the ``UserFunction``."""

    arg_types: ClassVar[dict[str, Any]] = {"function": True, "expressions": True}


class FieldAccess(exp.Expression):
    """``value->field``: ``this`` the struct, ``expression`` the field's Identifier."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True}


class MatchRef(exp.Expression):
    """``source MATCH_RECOGNIZE (…) [AS alias] [WITH ('p' = v)]`` as a source.

    Args: ``this`` the source whose rows are matched (RelationRef or Subquery), ``partition`` columns, ``order`` an
    ``exp.Order``, ``measures`` and ``definitions`` lists of ``exp.Alias`` (the alias of a definition is its variable),
    ``skip`` a key of :data:`SKIPS` with ``variable`` (Identifier) for ``to_first`` and ``to_last``, ``pattern`` a tree
    of the classes below, ``within`` milliseconds, ``alias``, ``properties`` as in RelationRef.
    """

    arg_types: ClassVar[dict[str, Any]] = {
        "this": True,
        "partition": False,
        "order": True,
        "measures": True,
        "skip": True,
        "variable": False,
        "pattern": True,
        "within": False,
        "definitions": True,
        "alias": False,
        "properties": False,
    }


SKIPS: dict[str, tuple[str, ...]] = {
    "past_last": ("past", "last", "row"),
    "to_next": ("to", "next", "row"),
    "to_first": ("to", "first"),
    "to_last": ("to", "last"),
}
"""Place where the search continues after a match → the words after SKIP; the last two are followed by a variable."""


class PatternVariable(exp.Expression):
    """One row that matches a pattern variable: ``this`` is its Identifier."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True}


class PatternSequence(exp.Expression):
    """Parts one after the other."""

    arg_types: ClassVar[dict[str, Any]] = {"expressions": True}


class PatternChoice(exp.Expression):
    """``a | b``: the first alternative that leads to a match."""

    arg_types: ClassVar[dict[str, Any]] = {"expressions": True}


class PatternRepeat(exp.Expression):
    """``this`` from ``least`` to ``most`` times (None: any number), as often as possible; ``reluctant``: as rarely."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "least": True, "most": False, "reluctant": False}
