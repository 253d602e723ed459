"""Conditions of the topic: set operations, DISTINCT, grouping sets, ranks, OVER, sub-selects in conditions."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

_ZERO = "0A000"

SETS: tuple[Condition, ...] = (
    Condition(
        "STATE_TYPE_NOT_YET",
        "not_yet",
        "a step of the query keeps rows, and cannot keep the {type} in {column}",
        "make a text of it in a sub-select below: CAST({column} AS VARCHAR)",
    ),
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
        "column {name} of type {type} cannot be compared, so duplicates cannot be found",
        "select its scalar parts",
        "42804",
    ),
)

GROUPING: tuple[Condition, ...] = (
    Condition(
        "GROUPING_ARGUMENT",
        "user",
        "{function} of {expression}, which is not an expression of GROUPING SETS, ROLLUP or CUBE",
        "name expressions of GROUP BY GROUPING SETS, ROLLUP or CUBE: SELECT a, GROUPING(a) AS g … GROUP BY ROLLUP (a)",
        "42803",
    ),
    Condition(
        "GROUPING_NOT_SELECTED",
        "user",
        "nothing in the SELECT list says to which set of GROUP BY a row belongs",
        "select {call} AS grouping_set too: it is part of the key, since NULL may also be a value",
        "42803",
    ),
)

OVER: tuple[Condition, ...] = (
    Condition(
        "OVER_MISPLACED",
        "user",
        "OVER (…) in {clause}",
        "write it in the SELECT list of a sub-select in FROM, and use its result outside",
        "42P20",
    ),
    Condition(
        "OVER_FUNCTION",
        "not_yet",
        "{function} OVER (…) is not built yet",
        "COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, LAG, ROW_NUMBER, RANK and DENSE_RANK are; for the row "
        "ahead (LEAD) look back from it: SELECT LAG(x) OVER (PARTITION BY k ORDER BY rowtime()) AS x, x AS next_x",
        _ZERO,
    ),
    Condition(
        "OVER_WITHOUT_ORDER",
        "user",
        "{function} OVER (…) without ORDER BY",
        "write the order: OVER (PARTITION BY … ORDER BY …)",
        "42P20",
    ),
    Condition(
        "OVER_NESTED",
        "user",
        "OVER by values of type {type}",
        "name a single value inside it: a field or an element",
        "42804",
    ),
    Condition(
        "OVER_SEVERAL",
        "unsupported",
        "OVER clauses that differ in one SELECT",
        "write the other one in a sub-select in FROM",
        _ZERO,
    ),
    Condition(
        "OVER_FRAME",
        "user",
        "the frame of OVER is not valid: {reason}",
        "the frames are on the page Dialect of the documentation, under OVER",
        "42P20",
    ),
    Condition(
        "OVER_CHANGELOG",
        "unsupported",
        "an aggregate OVER rows of a changelog, which may be replaced or deleted",
        "GROUP BY instead, or read a stream",
        _ZERO,
    ),
    Condition(
        "OVER_TIME",
        "unsupported",
        "an aggregate OVER rows that are not in order of event time",
        "write ORDER BY {names}; through a sub-select it has to be selected unchanged",
        _ZERO,
    ),
    Condition(
        "RANK_WITHOUT_FILTER",
        "unsupported",
        "{function} numbers all rows: each new row would change the numbers of all rows after it",
        "bound it outside: SELECT … FROM (SELECT …, {function}() OVER (…) AS rn FROM …) q WHERE rn <= 10",
        _ZERO,
    ),
)

SUB_SELECTS: tuple[Condition, ...] = (
    Condition(
        "IN_COLUMN_COUNT", "user", "IN (SELECT …) of {count} columns", "select only the column to compare with", "42601"
    ),
    Condition(
        "EXISTS_WITHOUT_EQUALITY",
        "unsupported",
        "a sub-select that is not tied to the outer query by equalities",
        "write WHERE inner.column = outer.column in it, joined by AND, without GROUP BY or DISTINCT; for another "
        "comparison join the extreme value: LEFT JOIN (SELECT k, MAX(v) AS most FROM t GROUP BY k) x ON x.k = o.k "
        "WHERE x.most IS NULL OR x.most <= o.v",
        _ZERO,
    ),
    Condition(
        "SCALAR_CORRELATED",
        "unsupported",
        "a sub-select as a value that names {name} of the query around it",
        "group it by the column and join it: LEFT JOIN (SELECT k, MAX(v) AS most FROM t GROUP BY k) x ON x.k = o.k",
        _ZERO,
    ),
    Condition(
        "NOT_IN_NULLABLE",
        "unsupported",
        "NOT IN of values that may be NULL: one NULL in the sub-select would hide every row",
        "add IS NOT NULL for both values, in WHERE outside and inside; or write NOT EXISTS",
        _ZERO,
    ),
    Condition(
        "SUBQUERY_MISPLACED",
        "unsupported",
        "a sub-select as a value in {clause}",
        "write it in FROM and join with it; in WHERE, joined by AND, [NOT] IN (SELECT …) and [NOT] EXISTS (…) are fine",
        _ZERO,
    ),
)

CONDITIONS: tuple[Condition, ...] = SETS + GROUPING + OVER + SUB_SELECTS
