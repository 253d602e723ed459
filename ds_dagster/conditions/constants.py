"""Conditions of the topic: constants in expressions, each tried when a project is checked."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "FUNCTION_ARGUMENT_VARIES",
        "user",
        "argument {position} of {function} is not a literal",
        "write a whole number there, as in {function}(value, 2)",
        "42883",
    ),
)
