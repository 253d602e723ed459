"""Conditions of the topic: MATCH_RECOGNIZE, its source, its pattern and its expressions."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

_ZERO = "0A000"

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "MATCH_OVER_CHANGELOG",
        "user",
        "MATCH_RECOGNIZE over {relation}, whose rows replace one another",
        "re-declare its topic as a STREAM and match the rows of that",
        "42809",
    ),
    Condition(
        "MATCH_ORDER_TIME",
        "user",
        "ORDER BY of MATCH_RECOGNIZE begins with {found}, not with event time, ascending",
        "write ORDER BY {time}; another column becomes event time by WITH ('timestamp' = 'column') after the source",
        "42601",
    ),
    Condition(
        "MATCH_PARTITION",
        "user",
        "PARTITION BY {expression} of type {type}",
        "partition by columns or struct fields of primitive types; compute others in a sub-select before",
        "42601",
    ),
    Condition(
        "MATCH_STAR",
        "user",
        "SELECT * over MATCH_RECOGNIZE",
        "name the columns: {columns}",
        "42601",
    ),
    Condition(
        "PATTERN_EMPTY",
        "user",
        "the PATTERN would match without any row",
        "require at least one row: + instead of *, or a variable without a quantifier",
        "42601",
    ),
    Condition(
        "PATTERN_OPEN_END",
        "user",
        "the PATTERN may end with one more row, so a match could wait forever for the next row",
        "add WITHIN n unit after the PATTERN, make the last quantifier reluctant, or end with a variable without one",
        "42601",
    ),
    Condition(
        "PATTERN_TOO_LARGE",
        "user",
        "the PATTERN has {size} states when its quantifiers are written out, more than {limit}",
        "use smaller numbers in its quantifiers",
        "54000",
    ),
    Condition(
        "PATTERN_SKIP",
        "user",
        "AFTER MATCH SKIP {words} {name}: {reason}",
        "name a variable that every match has after its first row, or SKIP TO NEXT ROW or PAST LAST ROW",
        "42601",
    ),
    Condition(
        "PATTERN_VARIABLE_UNKNOWN",
        "user",
        "{name} is not a variable of the PATTERN",
        "its variables are {known}; write columns of the source without a prefix",
        "42703",
    ),
    Condition(
        "PATTERN_VARIABLE_TWICE",
        "user",
        "pattern variable {name} is defined twice",
        "join the conditions with AND or OR",
        "42701",
    ),
    Condition(
        "PATTERN_VARIABLES_MIXED",
        "user",
        "{expression} is over rows of {variables} at once",
        "take the rows of one variable in each call",
        "42601",
    ),
    Condition(
        "PATTERN_NESTED",
        "user",
        "{inner} inside of {outer}",
        "use the columns of one variable in FIRST, LAST and aggregates",
        "42601",
    ),
    Condition(
        "PATTERN_FUNCTION",
        "unsupported",
        "{function} in MATCH_RECOGNIZE is not supported",
        "{instead}",
        _ZERO,
    ),
    Condition(
        "PATTERN_NOT_FIXED",
        "user",
        "{function} in DEFINE: it could give another value when the same row is evaluated again",
        "compute it in a query before, into a column",
        "42601",
    ),
    Condition(
        "PATTERN_STATE",
        "user",
        "the rows of {relation} that a match may still need are kept without a limit",
        "add WITHIN n unit after the PATTERN, or QUERY WITH ('state.ttl.millis' = n)",
    ),
)
