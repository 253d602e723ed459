"""Functions of other rows, with OVER only. Over a stream they are steps of a plan (``plan/binding/over.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.datatypes import BIGINT, DOUBLE, DataType
from ds_dagster.functions.function import Example, Function, Nulls, ResultRule, first, signature

_FILTERED = "ranking over a stream comes with top-n; filter or aggregate instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFunction(Function):
    """One of them.

    Attributes:
        question: DuckDB's function.
        instead: an alternative where it is not supported.
    """

    question: str
    instead: str


def _window(
    name: str,
    words: str,
    result: DataType | ResultRule,
    meaning: str,
    *examples: tuple[str, str],
    instead: str = _FILTERED,
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
        "number of the row; over a stream with a filter on it, for the first rows of each group",
        ("ROW_NUMBER() OVER (ORDER BY n)", "1, 2, 3"),
    ),
    _window(
        "RANK",
        "",
        BIGINT,
        "number of the row, equal rows have one number, and the next one jumps",
        ("RANK() OVER (ORDER BY k)", "3, 1, 1"),
    ),
    _window(
        "DENSE_RANK",
        "",
        BIGINT,
        "number of the row, equal rows have one number, without gaps",
        ("DENSE_RANK() OVER (ORDER BY k)", "2, 1, 1"),
    ),
    _window(
        "PERCENT_RANK",
        "",
        DOUBLE,
        "rank from 0 to 1: how many rows are before, of all others; in questions only",
        ("PERCENT_RANK() OVER (ORDER BY n)", "0.0, 0.5, 1.0"),
    ),
    _window(
        "CUME_DIST",
        "",
        DOUBLE,
        "which part of all rows is not after the row, from above 0 to 1; in questions only",
        ("ROUND(CUME_DIST() OVER (ORDER BY n), 2)", "0.33, 0.67, 1.0"),
    ),
    _window(
        "NTILE",
        "integer",
        BIGINT,
        "number of the part, when rows are cut into so many parts; in questions only",
        ("NTILE(3) OVER (ORDER BY n)", "1, 2, 3"),
    ),
    _window(
        "LAG",
        "any integer? any?",
        first,
        "value of the row so many (1) before; else NULL, or in a question the third argument",
        ("LAG(n) OVER (ORDER BY n)", "NULL, 2, 4"),
        nulls="always",
    ),
    _window(
        "LEAD",
        "any integer? any?",
        first,
        "value of the row so many (1) after; else NULL, or the third argument; in questions only",
        ("LEAD(n) OVER (ORDER BY n)", "4, 6, NULL"),
        nulls="always",
        instead="a row waits for no row behind it: write LAG(value) OVER (…), and read the row that follows; or "
        "MATCH_RECOGNIZE (… PATTERN (a b) …) for two rows as one",
    ),
)
