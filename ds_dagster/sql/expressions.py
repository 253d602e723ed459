"""Our sqlglot nodes inside SELECT bodies. Every one is listed in the generator's ``TRANSFORMS`` (sqlglot finds printing
methods by itself only for nodes of its own package)."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp


class RelationRef(exp.Table):
    """``name [[AS] alias] [WITH ('p' = v)]`` in FROM or JOIN. ``properties``: list of ``statements.Property``."""

    arg_types: ClassVar[dict[str, Any]] = {**exp.Table.arg_types, "properties": False}


class WindowRef(exp.Expression):
    """``TUMBLE(rel, SIZE n unit)`` and kin as a source.

    Args: ``this`` the windowed source (RelationRef or Subquery), ``function`` TUMBLE|HOP|CUMULATE|SESSION (text),
    ``size_millis``
    and ``step_millis`` (integers; step = ADVANCE BY / STEP), ``alias``, ``properties`` as in RelationRef.
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
    """A JOIN with an optional ``WITHIN n unit``: ``within`` is milliseconds (integer)."""

    arg_types: ClassVar[dict[str, Any]] = {**exp.Join.arg_types, "within": False}


class UserCall(exp.Expression):
    """A call of a function of the user in a bound tree: ``function`` is its ``UserFunction``."""

    arg_types: ClassVar[dict[str, Any]] = {"function": True, "expressions": True}


class FieldAccess(exp.Expression):
    """``value->field``: ``this`` the struct, ``expression`` the field's Identifier."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expression": True}
