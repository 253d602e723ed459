"""Conditions of the topic: set operations, DISTINCT, ranks, OVER, sub-selects in conditions."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

_ZERO = "0A000"

SETS: tuple[Condition, ...] = (
    Condition(
        "SET_COLUMN_COUNT",
        "user",
        "the parts of the set operation have {first} and {other} columns",
        "select the same number of columns in each part",
        "42601",
    ),
    Condition(
        "SET_COLUMN_TYPES",
        "user",
        "column {name} is {first} in one part and {other} in another",
        "CAST one of them, so that both are of one type",
        "42804",
    ),
    Condition(
        "SET_OPERATION_ALL",
        "unsupported",
        "{operation} ALL is not supported",
        "write {operation} without ALL: each row once",
        _ZERO,
    ),
    Condition(
        "DISTINCT_NESTED",
        "user",
        "column {name} of type {type} cannot be compared, so duplicates cannot be told",
        "select its scalar parts",
        "42804",
    ),
    Condition(
        "STATE_GROWS",
        "user",
        "{what} keeps {kept} for ever",
        "fine where that is a bounded number; else keep rows out with WHERE, or group by windows of time",
    ),
)

CONDITIONS: tuple[Condition, ...] = SETS
