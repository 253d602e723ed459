"""Operators and forms of expressions that are not calls, one record each: how it is written, text, examples.

Types are bound in ``plan/expressions/``. Spark's meaning is here where it is one operation on columns; the others need
types or trees and have a visitor in ``spark/expressions.py``. Questions use DuckDB's operator, or a visitor in
``questions/lowering.py`` where that has another meaning.
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
    """One of them.

    Attributes:
        text: how it is written; between its sides where it has two.
        node: class of its trees.
        meaning: one line for the documentation.
        examples: shown and tested.
        spark: from the columns of both sides their result; None where a visitor computes it.
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
        "quotient; of whole numbers whole, cut towards zero; by zero floats give infinity or NaN, others fail",
        ("7 / 2", "3"),
        ("7 / 2.0", "3.5"),
    ),
    _operator("%", exp.Mod, "remainder with the sign of the left side, as MOD", ("-7 % 2", "-1")),
    _operator(
        "||",
        exp.DPipe,
        "texts joined, as CONCAT; NULL when a side is",
        ("'a' || 'b'", "'ab'"),
        ("'a' || NULL", "NULL"),
    ),
    _operator(
        "=",
        exp.EQ,
        "equal, after both sides are converted to one type; NULL when a side is; NaN equals itself",
        ("1 = 1.0", "TRUE"),
        spark=lambda left, right: left == right,
    ),
    _operator("<>", exp.NEQ, "not equal", ("1 <> 2", "TRUE"), spark=lambda left, right: left != right),
    _operator(
        "<", exp.LT, "below; texts by their bytes", ("'a' < 'b'", "TRUE"), spark=lambda left, right: left < right
    ),
    _operator("<=", exp.LTE, "below or equal", ("2 <= 2", "TRUE"), spark=lambda left, right: left <= right),
    _operator(">", exp.GT, "above", ("1 > 2", "FALSE"), spark=lambda left, right: left > right),
    _operator(">=", exp.GTE, "above or equal", ("2 >= 2", "TRUE"), spark=lambda left, right: left >= right),
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
        "the opposite; never NULL",
        ("1 IS DISTINCT FROM NULL", "TRUE"),
        spark=lambda left, right: ~left.eqNullSafe(right),
    ),
    _operator(
        "AND",
        exp.And,
        "both are true; FALSE when a side is FALSE, else NULL when a side is",
        ("FALSE AND CAST(NULL AS BOOLEAN)", "FALSE"),
        spark=lambda left, right: left & right,
    ),
    _operator(
        "OR",
        exp.Or,
        "a side is true; else NULL when a side is",
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
        "behind LIKE: the character before a `%` or `_` that is meant",
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
        "the value as another type; one that does not fit fails",
        ("CAST('12' AS INTEGER)", "12"),
        ("CAST(2.9 AS INTEGER)", "2"),
    ),
    _operator(
        "TRY_CAST(x AS type)", exp.TryCast, "CAST; NULL instead of a failure", ("TRY_CAST('x' AS INTEGER)", "NULL")
    ),
    _operator(
        "x[i]",
        exp.Bracket,
        "element of an ARRAY, counted from 1, or value of a MAP; NULL where there is none",
        ("ARRAY['a', 'b'][2]", "'b'"),
        ("MAP['k', 1]['k']", "1"),
    ),
    _operator("x->field", FieldAccess, "field of a STRUCT, also `x['field']`", ("STRUCT(1 AS a)->a", "1")),
    _operator("ARRAY[…]", exp.Array, "an ARRAY of values", ("CARDINALITY(ARRAY[1, 2])", "2")),
    _operator("STRUCT(x AS name, …)", exp.Struct, "a STRUCT of values with names", ("STRUCT(1 AS a)->a", "1")),
)
"""All of them, in the order of the documentation."""
TEXTS: dict[type[exp.Expression], str] = {operator.node: operator.text for operator in OPERATORS}
"""Class of a tree → how the operator is written."""
