"""Functions of other rows, with OVER only. Over a stream they are steps of a plan (``plan/binding/over.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.datatypes import BIGINT, DOUBLE, DataType
from ds_dagster.functions.function import Example, Function, Nulls, ResultRule, first, signature

_RANKED = "write ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) in a sub-select, and filter on it: WHERE n <= 3"
"""For functions that are called without OVER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFunction(Function):
    """A function of other rows.

    Attributes:
        question: name of DuckDB's function.
        instead: hint for a call without OVER.
    """

    question: str
    instead: str


def _window(
    name: str,
    words: str,
    result: DataType | ResultRule,
    meaning: str,
    *examples: tuple[str, str],
    instead: str = _RANKED,
    nulls: Nulls = "never",
) -> WindowFunction:
    return WindowFunction(
        name,
        (signature(words, result),),
        meaning,
        kind="window",
        nulls=nulls,
        examples=tuple(Example(call, gives) for call, gives in examples),
        question=name.lower(),
        instead=instead,
    )


WINDOW_FUNCTIONS: tuple[WindowFunction, ...] = (
    _window(
        "ROW_NUMBER",
        "",
        BIGINT,
        "number of the row; over a stream only with a filter on it, for the first rows of each group",
        ("ROW_NUMBER() OVER (ORDER BY n)", "1, 2, 3"),
    ),
    _window(
        "RANK",
        "",
        BIGINT,
        "number of the row; equal rows have the number of the first of them",
        ("RANK() OVER (ORDER BY k)", "3, 1, 1"),
    ),
    _window(
        "DENSE_RANK",
        "",
        BIGINT,
        "number of the row; equal rows have one number, and no number is skipped",
        ("DENSE_RANK() OVER (ORDER BY k)", "2, 1, 1"),
    ),
    _window(
        "PERCENT_RANK",
        "",
        DOUBLE,
        "rank from 0 to 1: the part of all other rows that is before the row; in questions only",
        ("PERCENT_RANK() OVER (ORDER BY n)", "0.0, 0.5, 1.0"),
    ),
    _window(
        "CUME_DIST",
        "",
        DOUBLE,
        "the part of all rows that is not after the row, above 0 and at most 1; in questions only",
        ("ROUND(CUME_DIST() OVER (ORDER BY n), 2)", "0.33, 0.67, 1.0"),
    ),
    _window(
        "NTILE",
        "integer",
        BIGINT,
        "number of the part, from 1, if rows are cut into that many parts; in questions only",
        ("NTILE(3) OVER (ORDER BY n)", "1, 2, 3"),
    ),
    _window(
        "LAG",
        "any integer? any?",
        first,
        "value of the row that many (default 1) before; NULL without such a row, or in a question the third argument",
        ("LAG(n) OVER (ORDER BY n)", "NULL, 2, 4"),
        nulls="always",
        instead="write LAG(value) OVER (PARTITION BY k ORDER BY time)",
    ),
    _window(
        "LEAD",
        "any integer? any?",
        first,
        "value of the row that many (default 1) after; NULL without such a row, or the third argument; in questions "
        "only",
        ("LEAD(n) OVER (ORDER BY n)", "4, 6, NULL"),
        nulls="always",
        instead="a row does not wait for later rows: write LAG(value) OVER (…) and use the next row, or "
        "MATCH_RECOGNIZE (… PATTERN (a b) …) for two rows as one",
    ),
)
