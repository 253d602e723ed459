"""Conditions of the topic: constants in expressions, which are evaluated when a project is checked."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "REGEX_GROUP_MISSING",
        "user",
        "group {group} of '{pattern}' does not exist, the expression has {groups}",
        "put parentheses around the part, or name another group; 0 is the whole match",
        "2201B",
    ),
    Condition("JSON_PATH_INVALID", "user", "'{path}' is not a JSON path of the dialect", "{fix}", "22032"),
    Condition("CHARSET_UNKNOWN", "user", "no character set is called {name}", "write one of {known}", "22023"),
    Condition("LIKE_ESCAPE", "user", "the ESCAPE of LIKE does not fit: {reason}", "{fix}", "22025"),
    Condition("TIME_ZONE_UNKNOWN", "user", "'{name}' is not a time zone", "write one such as {nearest}", "22009"),
    Condition(
        "PERCENTILE_PART",
        "user",
        "the second argument of {function} is not a number from 0 to 1",
        "write it as a number with at most nine digits: {function}(x, 0.9)",
        "22003",
    ),
    Condition(
        "DIVISION_BY_ZERO", "user", "this divides by 0", "divide by another number, or by NULLIF(value, 0)", "22012"
    ),
    Condition(
        "INDEX_BELOW_ONE",
        "user",
        "an ARRAY has no element [{index}]",
        "the first element is array[1], the last array[CARDINALITY(array)]",
        "2202E",
    ),
    Condition(
        "COMPARED_WITH_NULL",
        "user",
        "a comparison with NULL is never true",
        "write {value} IS {negated}NULL",
        "42601",
    ),
)
