"""Conditions of the topic: constraints of relations, when they are parsed and when they are bound."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

WRITTEN: tuple[Condition, ...] = (
    Condition(
        "CONSTRAINT_WITHOUT_NAME",
        "user",
        "CHECK without a name",
        "write CONSTRAINT name CHECK (condition) ON VIOLATION WARN, DROP, FAIL or QUARANTINE",
        "42601",
    ),
    Condition(
        "CONSTRAINT_UNSUPPORTED",
        "unsupported",
        "constraint {name} with {word}",
        "write CONSTRAINT {name} CHECK (condition) ON VIOLATION …; a row for which the condition is NULL satisfies it",
        "0A000",
    ),
    Condition(
        "CONSTRAINT_DEFINED_TWICE",
        "user",
        "constraint {name} is defined twice, also at {other}",
        "rename or remove one of the two",
        "42710",
    ),
)
CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "CONSTRAINT_OF_TABLE",
        "not_yet",
        "constraint {name} of table {relation}: rows of a declared table are not checked",
        "declare it on the stream that is read, or on CREATE TABLE {relation} (CONSTRAINT …) AS SELECT …",
        "0A000",
    ),
    Condition(
        "QUARANTINE_UNUSED",
        "user",
        "'{name}' without a constraint ON VIOLATION QUARANTINE",
        "add a constraint ON VIOLATION QUARANTINE, or leave the property out",
        "22023",
    ),
    Condition(
        "CONSTRAINT_NOT_REPEATABLE",
        "user",
        "constraint {name} of {relation} calls {function}, which gives another value each time",
        "compare columns of the row: a batch that is repeated has to check its rows with the same result",
        "0A000",
    ),
)
