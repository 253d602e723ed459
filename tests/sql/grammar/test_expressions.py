"""What the trees mean: precedence against a database that did not come from us, functions, types, windows, joins."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType, decimal
from ds_dagster.errors import DsError
from ds_dagster.sql import function_call, parse_select, parse_type, type_node, type_of_node
from ds_dagster.sql.expressions import FieldAccess, RelationRef, StreamJoin, WindowRef

OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.GTE: ">=",
    exp.And: "AND", exp.Or: "OR",
}  # fmt: skip


def parenthesized(node: exp.Expr) -> str:
    """The tree with every grouping written out, so that no precedence is left to whoever reads it."""
    operator = OPERATORS.get(type(node))
    if operator:
        return f"({parenthesized(node.this)} {operator} {parenthesized(node.expression)})"
    if isinstance(node, exp.Paren):
        return parenthesized(node.this)
    if isinstance(node, exp.Neg):
        return f"(- {parenthesized(node.this)})"
    if isinstance(node, exp.Not):
        return f"(NOT {parenthesized(node.this)})"
    if isinstance(node, exp.Is):
        return f"({parenthesized(node.this)} IS {node.expression.sql()})"
    if isinstance(node, exp.Between):
        low, high = parenthesized(node.args["low"]), parenthesized(node.args["high"])
        return f"({parenthesized(node.this)} BETWEEN {low} AND {high})"
    if isinstance(node, exp.In):
        return f"({parenthesized(node.this)} IN ({', '.join(map(parenthesized, node.expressions))}))"
    return node.sql()


NUMBERS = st.deferred(
    lambda: (
        st.integers(1, 9).map(str)
        | st.tuples(NUMBERS, st.sampled_from(["+", "-", "*", "%"]), NUMBERS).map(" ".join)
        | NUMBERS.map(lambda text: f"- {text}")
        | NUMBERS.map(lambda text: f"({text})")
    )
)
TRUTHS = st.deferred(
    lambda: (
        st.tuples(NUMBERS, st.sampled_from(["=", "<>", "<", ">="]), NUMBERS).map(" ".join)
        | st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda parts: "{} BETWEEN {} AND {}".format(*parts))
        | st.tuples(NUMBERS, NUMBERS).map(lambda parts: "{} NOT IN ({}, 3)".format(*parts))
        | NUMBERS.map(lambda text: f"{text} IS NOT NULL")
        | st.tuples(TRUTHS, st.sampled_from(["AND", "OR"]), TRUTHS).map(" ".join)
        | TRUTHS.map(lambda text: f"NOT {text}")
        | TRUTHS.map(lambda text: f"({text})")
    )
)


CONNECTION = duckdb.connect()


def answer(text: str) -> object:
    """What the other database makes of it; a number too large or a modulus of zero is an answer too."""
    try:
        return CONNECTION.execute(f"SELECT {text}").fetchall()
    except duckdb.Error as failure:
        return type(failure)


@pytest.mark.sweep
@settings(max_examples=200, deadline=None)
@given(TRUTHS | NUMBERS)
def test_precedence_is_that_of_another_database(text: str) -> None:
    tree = parse_select(f"SELECT {text} AS x FROM t").tree
    assert isinstance(tree, exp.Select)
    ours = parenthesized(tree.expressions[0].this)
    assert answer(ours) == answer(text)


def projection(text: str) -> exp.Expr:
    tree = parse_select(f"SELECT {text} AS x FROM t").tree
    assert isinstance(tree, exp.Select)
    found = tree.expressions[0].this
    assert isinstance(found, exp.Expr)
    return found


@pytest.mark.parametrize(
    ("text", "name", "count", "distinct"),
    [
        ("count(*)", "COUNT", 1, False),
        ("Count(DISTINCT a)", "COUNT", 1, True),
        ("coalesce(a, b, c)", "COALESCE", 3, False),
        ("to_timestamp_ltz(a, 3)", "TO_TIMESTAMP_LTZ", 2, False),
        ("rowtime()", "ROWTIME", 0, False),
        ("current_timestamp", "CURRENT_TIMESTAMP", 0, False),
        ("listagg(DISTINCT a, ',')", "LISTAGG", 2, True),
    ],
)
def test_functions(text: str, name: str, count: int, distinct: bool) -> None:
    call = function_call(projection(text))
    assert call is not None
    assert (call.name, len(call.arguments), call.distinct) == (name, count, distinct)
    assert function_call(projection("a + 1")) is None


def test_access_to_parts() -> None:
    inner = projection("a.b->c->\"D\"['k'][1]")
    assert isinstance(inner, exp.Bracket) and isinstance(inner.this, exp.Bracket)
    field = inner.this.this
    assert isinstance(field, FieldAccess) and field.expression.name == "D"
    assert isinstance(field.this, FieldAccess) and field.this.expression.name == "c"
    assert [inner.expressions[0].this, inner.this.expressions[0].this] == ["1", "k"]


def test_names_are_folded_unless_quoted() -> None:
    column = projection('Tab."Col"')
    assert isinstance(column, exp.Column)
    assert (column.table, column.name) == ("tab", "Col")


def sources(text: str) -> exp.Select:
    tree = parse_select(f"SELECT * FROM {text}").tree
    assert isinstance(tree, exp.Select)
    return tree


def test_every_source_has_an_alias() -> None:
    plain = sources("Db.Public.Clicks").args["from_"].this
    assert isinstance(plain, RelationRef)
    assert (plain.catalog, plain.db, plain.name, plain.alias) == ("db", "public", "clicks", "clicks")
    window = (
        sources("HOP(clicks c WITH ('a' = 'b'), ADVANCE BY 30 SECONDS, SIZE 2 MINUTES) WITH ('c' = 1)")
        .args["from_"]
        .this
    )
    assert isinstance(window, WindowRef)
    assert (window.alias, window.args["function"]) == ("c", "HOP")
    assert (window.args["size_millis"], window.args["step_millis"]) == (120_000, 30_000)
    assert [item.name for item in window.args["properties"]] == ["c"]
    assert [item.name for item in window.this.args["properties"]] == ["a"]
    assert sources("(SELECT a FROM t)").args["from_"].this.alias == "_1"


def test_joins() -> None:
    first, second = sources("a LEFT JOIN b x WITHIN 2 DAYS ON a.k = x.k JOIN c ON c.k = a.k").args["joins"]
    assert isinstance(first, StreamJoin) and isinstance(second, StreamJoin)
    assert (first.side, first.args.get("within"), first.this.alias) == ("LEFT", 172_800_000, "x")
    assert (second.side, second.args.get("within")) == ("", None)


SCALARS: st.SearchStrategy[DataType] = st.sampled_from(
    [Scalar("BIGINT"), Scalar("VARCHAR", length=3), Scalar("TIME", precision=0), Scalar("TIMESTAMP_LTZ")]
) | st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
TYPES: st.SearchStrategy[DataType] = st.recursive(
    SCALARS,
    lambda inner: (
        inner.map(ArrayType)
        | st.tuples(SCALARS, inner).map(lambda pair: MapType(*pair))
        | st.lists(
            st.tuples(st.sampled_from(["a", "B c", 'q"', "order"]), inner),
            min_size=1,
            max_size=3,
            unique_by=lambda f: f[0],
        ).map(lambda fields: StructType(tuple(StructField(*field) for field in fields)))
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(TYPES)
def test_types_come_back(type_: DataType) -> None:
    assert type_of_node(type_node(type_)) == type_
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("STRUCT<a INT, a INT>", "COLUMN_DEFINED_TWICE"),
        ("ARRAY", "SYNTAX_EXPECTED"),
        ("INT INT", "SYNTAX_UNEXPECTED"),
        ("", "SYNTAX_EXPECTED"),
    ],
)
def test_types_refused(text: str, condition: str) -> None:
    with pytest.raises(DsError) as caught:
        parse_type(text)
    assert caught.value.condition == condition


def test_a_question_that_is_no_select(monkeypatch: Any) -> None:
    for text in ("CREATE DATABASE d", "SELECT a FROM t; SELECT b FROM t", "SELECT a FROM t WHERE 'x"):
        with pytest.raises(DsError):
            parse_select(text)
