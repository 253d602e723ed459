"""Operators and forms of expressions that are not calls, one record each: its text, its meaning, examples.

Types are bound in ``plan/expressions/``. Spark's meaning is here if it is one operation on columns; the others need
types or trees and have a visitor in ``spark/expressions.py``. Questions use DuckDB's operator, or a visitor in
``questions/lowering.py`` if DuckDB's has another meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ds_dagster.functions.function import Example
from ds_dagster.sql.expressions import FieldAccess


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator or form.

    Attributes:
        text: as it is written; between its sides if it has two.
        node: class of its trees.
        meaning: one line for the documentation.
        examples: shown and tested.
        spark: (left column, right column) → result; None if a visitor computes it.
    """

    text: str
    node: type[exp.Expression]
    meaning: str
    examples: tuple[Example, ...]
    spark: Callable[[Any, Any], Any] | None = None


def _operator(
    text: str,
    node: type[exp.Expression],
    meaning: str,
    *examples: tuple[str, str],
    spark: Callable[[Any, Any], Any] | None = None,
) -> Operator:
    return Operator(text, node, meaning, tuple(Example(call, gives) for call, gives in examples), spark)


OPERATORS: tuple[Operator, ...] = (
    _operator(
        "+",
        exp.Add,
        "sum of numbers, or a time moved by an INTERVAL; a whole number that does not fit fails",
        ("1 + 2", "3"),
        ("DATE '2024-01-31' + INTERVAL '1' DAY", "DATE '2024-02-01'"),
    ),
    _operator("-", exp.Sub, "difference of numbers, or a time moved back by an INTERVAL", ("1 - 2", "-1")),
    _operator("- x", exp.Neg, "the number with the other sign", ("-(1 + 2)", "-3")),
    _operator("*", exp.Mul, "product", ("1.5 * 2", "3.0"), spark=lambda left, right: left * right),
    _operator(
        "/",
        exp.Div,
        "quotient; whole for whole numbers, cut towards zero; division by zero gives infinity or NaN for floats, else "
        "it fails",
        ("7 / 2", "3"),
        ("7 / 2.0", "3.5"),
    ),
    _operator("%", exp.Mod, "remainder with the sign of the left side, as MOD", ("-7 % 2", "-1")),
    _operator(
        "||",
        exp.DPipe,
        "texts joined, as CONCAT; NULL if a side is NULL",
        ("'a' || 'b'", "'ab'"),
        ("'a' || NULL", "NULL"),
    ),
    _operator(
        "=",
        exp.EQ,
        "equal, after both sides are converted to one type; NULL if a side is NULL; NaN equals itself",
        ("1 = 1.0", "TRUE"),
        spark=lambda left, right: left == right,
    ),
    _operator("<>", exp.NEQ, "not equal", ("1 <> 2", "TRUE"), spark=lambda left, right: left != right),
    _operator("<", exp.LT, "less; texts by their bytes", ("'a' < 'b'", "TRUE"), spark=lambda left, right: left < right),
    _operator("<=", exp.LTE, "less or equal", ("2 <= 2", "TRUE"), spark=lambda left, right: left <= right),
    _operator(">", exp.GT, "greater", ("1 > 2", "FALSE"), spark=lambda left, right: left > right),
    _operator(">=", exp.GTE, "greater or equal", ("2 >= 2", "TRUE"), spark=lambda left, right: left >= right),
    _operator(
        "IS NOT DISTINCT FROM",
        exp.NullSafeEQ,
        "equal, or both NULL; never NULL",
        ("1 IS NOT DISTINCT FROM NULL", "FALSE"),
        spark=lambda left, right: left.eqNullSafe(right),
    ),
    _operator(
        "IS DISTINCT FROM",
        exp.NullSafeNEQ,
        "the opposite of IS NOT DISTINCT FROM; never NULL",
        ("1 IS DISTINCT FROM NULL", "TRUE"),
        spark=lambda left, right: ~left.eqNullSafe(right),
    ),
    _operator(
        "AND",
        exp.And,
        "both are true; FALSE if a side is FALSE, else NULL if a side is NULL",
        ("FALSE AND CAST(NULL AS BOOLEAN)", "FALSE"),
        spark=lambda left, right: left & right,
    ),
    _operator(
        "OR",
        exp.Or,
        "a side is true; else NULL if a side is NULL",
        ("TRUE OR CAST(NULL AS BOOLEAN)", "TRUE"),
        spark=lambda left, right: left | right,
    ),
    _operator("NOT x", exp.Not, "the opposite; NULL stays NULL", ("NOT (1 = 2)", "TRUE")),
    _operator(
        "IS",
        exp.Is,
        "`x IS [NOT] NULL`, `TRUE` or `FALSE`; never NULL",
        ("'' IS NULL", "FALSE"),
        ("CAST(NULL AS BOOLEAN) IS NOT TRUE", "TRUE"),
    ),
    _operator("x IN (…)", exp.In, "equal to one of a list", ("2 IN (1, 2)", "TRUE")),
    _operator(
        "x BETWEEN a AND b",
        exp.Between,
        "from the first to the second, both included",
        ("2 BETWEEN 1 AND 2", "TRUE"),
    ),
    _operator(
        "LIKE",
        exp.Like,
        "the whole text matches: `%` is any characters, `_` one; a backslash is a character like any other",
        ("'abc' LIKE 'a_%'", "TRUE"),
    ),
    _operator("ILIKE", exp.ILike, "LIKE of both sides in lower case", ("'ABC' ILIKE 'a_%'", "TRUE")),
    _operator(
        "ESCAPE",
        exp.Escape,
        "after LIKE: the character before a `%` or `_` that stands for itself",
        ("'50%' LIKE '50!%' ESCAPE '!'", "TRUE"),
    ),
    _operator(
        "CASE … END",
        exp.Case,
        "value of the first branch whose condition is true, else of ELSE, else NULL",
        ("CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END", "'b'"),
        ("CASE 3 WHEN 1 THEN 'one' END", "NULL"),
    ),
    _operator(
        "CAST(x AS type)",
        exp.Cast,
        "the value as another type; fails if it does not fit",
        ("CAST('12' AS INTEGER)", "12"),
        ("CAST(2.9 AS INTEGER)", "2"),
    ),
    _operator(
        "TRY_CAST(x AS type)", exp.TryCast, "CAST; NULL instead of a failure", ("TRY_CAST('x' AS INTEGER)", "NULL")
    ),
    _operator(
        "x[i]",
        exp.Bracket,
        "element of an ARRAY, counted from 1, or value of a MAP; NULL if there is none",
        ("ARRAY['a', 'b'][2]", "'b'"),
        ("MAP['k', 1]['k']", "1"),
    ),
    _operator("x->field", FieldAccess, "field of a STRUCT, also `x['field']`", ("STRUCT(1 AS a)->a", "1")),
    _operator("ARRAY[…]", exp.Array, "an ARRAY of values", ("CARDINALITY(ARRAY[1, 2])", "2")),
    _operator("STRUCT(x AS name, …)", exp.Struct, "a STRUCT of values with names", ("STRUCT(1 AS a)->a", "1")),
)
"""All operators, in the order of the documentation."""
TEXTS: dict[type[exp.Expression], str] = {operator.node: operator.text for operator in OPERATORS}
"""Class of a tree → text of its operator."""
