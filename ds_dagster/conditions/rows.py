"""Conditions of the topic: UNNEST, sub-selects as values, column lists of INSERT, aggregates without GROUP BY."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "UNNEST_TYPE",
        "user",
        "UNNEST of {type}: only an ARRAY or a MAP has elements",
        "name a column of type ARRAY or MAP; a text is cut by SPLIT(text, ',')",
        "42804",
    ),
    Condition(
        "UNNEST_COLUMNS",
        "user",
        "UNNEST names {count} columns, an element has {expected}: {columns}",
        "name all of them, or none",
        "42P10",
    ),
    Condition(
        "UNNEST_CONDITION",
        "unsupported",
        "a condition after UNNEST",
        "write CROSS JOIN UNNEST(…) AS t(name) and WHERE, or LEFT JOIN UNNEST(…) AS t(name) ON TRUE",
        "0A000",
    ),
    Condition(
        "SCALAR_COLUMNS",
        "user",
        "a sub-select as a value selects {count} columns",
        "select one expression",
        "42601",
    ),
    Condition(
        "SCALAR_ROWS",
        "user",
        "a sub-select as a value may have several rows",
        "select an aggregate without GROUP BY, (SELECT MAX(column) FROM relation); other rows are read by a join",
        "21000",
    ),
    Condition(
        "INSERT_COLUMNS",
        "user",
        "INSERT INTO {relation} ({columns}): {reason}",
        "{fix}",
        "42601",
    ),
    Condition(
        "TOTAL_WITHOUT_KEY",
        "user",
        "an aggregate without GROUP BY gives one row, which has no key in {relation}",
        "select a constant in the place of the primary key of {relation}: SELECT 'all' AS name, COUNT(*) AS n FROM …",
        "42803",
    ),
)
