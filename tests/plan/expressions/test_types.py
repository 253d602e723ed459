"""Types and bound trees of expressions: tables of text → type, text → canonical text."""

from __future__ import annotations

import pytest
from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.functions.function import FAMILIES
from ds_dagster.functions.table import ALIASES, FUNCTIONS, KNOWN_LATER, find_function
from ds_dagster.plan.expressions.arithmetic import CASTS, arithmetic_type, can_cast, widens
from ds_dagster.plan.expressions.binder import BOUND_NODES
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.rows import Project
from ds_dagster.sql.script import parse_type
from tests.plan.conftest import Compile

TYPED = (
    # literals
    ("1", "INTEGER NOT NULL"),
    ("3000000000", "BIGINT NOT NULL"),
    ("99999999999999999999", "DECIMAL(20,0) NOT NULL"),
    ("3600.0", "DECIMAL(5,1) NOT NULL"),
    ("0.05", "DECIMAL(2,2) NOT NULL"),
    ("1e3", "DOUBLE NOT NULL"),
    ("'a'", "VARCHAR NOT NULL"),
    ("TRUE", "BOOLEAN NOT NULL"),
    ("DATE '2024-01-31'", "DATE NOT NULL"),
    ("TIMESTAMP '2024-01-31 10:00:00'", "TIMESTAMP NOT NULL"),
    # arithmetic: whole stays whole, DECIMAL by Flink's rules, floats win
    ("small + small", "SMALLINT"),
    ("small + big", "BIGINT"),
    ("big / 2", "BIGINT"),
    ("whole / 2", "INTEGER"),
    ("big / 3600.0", "DECIMAL(26,6)"),
    ("money + money", "DECIMAL(11,2)"),
    ("money * money", "DECIMAL(21,4)"),
    ("money / money", "DECIMAL(23,13)"),
    ("money * 2", "DECIMAL(21,2)"),
    ("money % 3", "DECIMAL(10,2)"),
    ("wide * wide", "DECIMAL(38,6)"),
    ("money + ratio", "DOUBLE"),
    ("single * small", "FLOAT"),
    ("single * big", "DOUBLE"),
    ("-money", "DECIMAL(10,2)"),
    ("big % 3", "BIGINT"),
    ("MOD(small, big)", "BIGINT"),
    ("seen + INTERVAL '5' MINUTE", "TIMESTAMP"),
    ("INTERVAL '5' MINUTE + seen", "TIMESTAMP"),
    ("arrived - INTERVAL '1' DAY", "TIMESTAMP_LTZ"),
    # conditions
    ("big > whole AND name = 'a' OR NOT ok", "BOOLEAN"),
    ("name IS NULL", "BOOLEAN NOT NULL"),
    ("ok IS TRUE", "BOOLEAN NOT NULL"),
    ("name IN ('a', 'b')", "BOOLEAN"),
    ("big BETWEEN 1 AND 2.5", "BOOLEAN"),
    ("name LIKE 'a%'", "BOOLEAN"),
    ("seen >= '2024-01-01'", "BOOLEAN"),
    ("big IS DISTINCT FROM 3", "BOOLEAN NOT NULL"),
    # branches
    ("CASE WHEN ok THEN 1 ELSE big END", "BIGINT"),
    ("CASE WHEN ok THEN 1 ELSE 2 END", "INTEGER NOT NULL"),
    ("CASE WHEN ok THEN 1 END", "INTEGER"),
    ("CASE name WHEN 'a' THEN 1.5 WHEN 'b' THEN NULL ELSE 2 END", "DECIMAL(11,1)"),
    ("COALESCE(name, 'x')", "VARCHAR NOT NULL"),
    ("COALESCE(NULL, big, 1)", "BIGINT NOT NULL"),
    ("IFNULL(whole, big)", "BIGINT"),
    ("NULLIF(big, 0)", "BIGINT"),
    ("GREATEST(whole, 2.5)", "DECIMAL(11,1)"),
    # casts
    ("CAST(name AS BIGINT)", "BIGINT"),
    ("TRY_CAST('1' AS INTEGER)", "INTEGER"),
    ("CAST(NULL AS VARCHAR)", "VARCHAR"),
    ("CAST(tags AS ARRAY<BIGINT>)", "ARRAY<BIGINT>"),
    ("CAST(seen AS DATE)", "DATE"),
    # parts
    ("info->city", "VARCHAR"),
    ("info->geo->lat", "DOUBLE"),
    ("info['city']", "VARCHAR"),
    ("tags[1]", "VARCHAR"),
    ("counts['a']", "BIGINT"),
    ("ARRAY[1, big]", "ARRAY<BIGINT> NOT NULL"),
    # functions
    ("name || '-' || name", "VARCHAR"),
    ("CONCAT(name, 'x')", "VARCHAR"),
    ("UPPER(TRIM(name))", "VARCHAR"),
    ("TRIM(LEADING '/' FROM name)", "VARCHAR"),
    ("SUBSTRING(name, 1, 2)", "VARCHAR"),
    ("CHAR_LENGTH(name)", "INTEGER"),
    ("SPLIT_INDEX(name, ',', 0)", "VARCHAR"),
    ("REGEXP_EXTRACT(name, '(a)(b)', 2)", "VARCHAR"),
    ("ROUND(money)", "DECIMAL(9,0)"),
    ("ROUND(money, 1)", "DECIMAL(10,1)"),
    ("FLOOR(ratio)", "DOUBLE"),
    ("CEIL(money)", "DECIMAL(9,0)"),
    ("ABS(small)", "SMALLINT"),
    ("TO_TIMESTAMP(name)", "TIMESTAMP"),
    ("TO_TIMESTAMP_LTZ(big, 3)", "TIMESTAMP_LTZ"),
    ("TO_TIMESTAMP_LTZ(name, 'yyyy')", "TIMESTAMP_LTZ"),
    ("UNIX_TIMESTAMP(DATE_FORMAT(seen, 'yyyy-MM-dd HH:mm:ss'))", "BIGINT"),
    ("FROM_UNIXTIME(big)", "VARCHAR"),
    ("CURRENT_TIMESTAMP", "TIMESTAMP_LTZ NOT NULL"),
    ("UUID()", "VARCHAR NOT NULL"),
    ("JSON_VALUE(name, '$.a')", "VARCHAR"),
    ("CARDINALITY(tags)", "INTEGER"),
    ("EXTRACT(HOUR FROM seen)", "BIGINT"),
    ("POSITION('a' IN name)", "INTEGER"),
    ("MD5(name)", "VARCHAR"),
    ("rowtime()", "BIGINT NOT NULL"),
    ("rowtime(d)", "BIGINT NOT NULL"),
)

CANONICAL = (
    ("big / 2", "(d$big DIV 2)"),
    ("whole / 2", "CAST((d$whole DIV 2) AS INTEGER)"),
    ("money * 2", "(d$money * CAST(2 AS DECIMAL(10,0)))"),
    ("money + ratio", "(CAST(d$money AS DOUBLE) + d$ratio)"),
    ("big % 3", "MOD(d$big, 3)"),
    ("name || 'a' || name", "CONCAT(d$name, 'a', d$name)"),
    ("info['city']", "d$info->city"),
    ("seen >= '2024-01-01'", "(d$seen >= CAST('2024-01-01' AS TIMESTAMP))"),
    ("big = whole", "(d$big = d$whole)"),
    ("money = whole", "(CAST(d$money AS DECIMAL(12,2)) = CAST(d$whole AS DECIMAL(12,2)))"),
    ("CASE name WHEN 'a' THEN 1 END", "CASE WHEN (d$name = 'a') THEN 1 ELSE CAST(NULL AS INTEGER) END"),
    ("TRIM(BOTH 'x' FROM name)", "TRIM(d$name, 'x')"),
    ("TRIM(TRAILING FROM name)", "RTRIM(d$name)"),
    ("substr(name, 2)", "SUBSTRING(d$name, 2)"),
    ("length(name)", "CHAR_LENGTH(d$name)"),
    ("EXTRACT(YEAR FROM seen)", "EXTRACT('YEAR', d$seen)"),
    ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
    ("(1 + 2) * 3", "((1 + 2) * 3)"),
)
DATA = """
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = 'x:1');
CREATE STREAM d (small SMALLINT, whole INTEGER, big BIGINT, single FLOAT, ratio DOUBLE, money DECIMAL(10,2), wide
DECIMAL(38,10),
  name VARCHAR, ok BOOLEAN, seen TIMESTAMP, arrived TIMESTAMP_LTZ, tags ARRAY<VARCHAR>, counts MAP<VARCHAR, BIGINT>,
  info STRUCT<city VARCHAR, geo STRUCT<lat DOUBLE>>) WITH
  ('topic.partitions'=1,'topic.replicas'=1,'value.format'='json');
"""


def bound(text: str, compile_sql: Compile) -> Project:
    project = compile_sql(f"CREATE STREAM s AS SELECT {text} AS x FROM d;", DATA)
    assert not project.diagnostics, [d.text() for d in project.diagnostics]
    top = project.queries["s"].root.input
    assert isinstance(top, Project)
    return top


@pytest.mark.parametrize(("text", "expected"), TYPED, ids=[text for text, _ in TYPED])
def test_type(text: str, expected: str, compile_sql: Compile) -> None:
    field = bound(text, compile_sql).output[0]
    assert f"{field.type}" + ("" if field.nullable else " NOT NULL") == expected


@pytest.mark.parametrize(("text", "expected"), CANONICAL, ids=[text for text, _ in CANONICAL])
def test_bound_tree(text: str, expected: str, compile_sql: Compile) -> None:
    tree = bound(text, compile_sql).columns[0].expression.tree
    assert expression_text(tree, str, strict=True) == expected


@pytest.mark.parametrize("text", [text for text, _ in TYPED])
def test_only_the_listed_nodes_come_out(text: str, compile_sql: Compile) -> None:
    for node in bound(text, compile_sql).columns[0].expression.tree.walk():
        assert isinstance(node, BOUND_NODES), type(node)
        if isinstance(node, exp.Anonymous):
            assert node.this in FUNCTIONS
        if isinstance(node, exp.Column):
            assert node.this.quoted and not node.table


def test_functions_table() -> None:
    assert not set(ALIASES) & set(FUNCTIONS)
    assert not set(KNOWN_LATER) & (set(FUNCTIONS) | set(ALIASES))
    for name, function in FUNCTIONS.items():
        assert name == name.upper() and function.meaning
        assert find_function(name.lower()) is function
        for signature in function.signatures:
            for position in range(len(signature.words)):
                assert signature.word(position) in FAMILIES


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("+", "DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(13,4)"),
        ("*", "DECIMAL(38,10)", "DECIMAL(38,10)", "DECIMAL(38,6)"),
        ("/", "DECIMAL(38,38)", "INTEGER", "DECIMAL(38,38)"),
        ("/", "INTEGER", "DECIMAL(5,1)", "DECIMAL(17,6)"),
        ("%", "DECIMAL(10,2)", "TINYINT", "DECIMAL(5,2)"),
        ("-", "TINYINT", "SMALLINT", "SMALLINT"),
        ("+", "FLOAT", "FLOAT", "FLOAT"),
        ("+", "VARCHAR", "INTEGER", None),
    ],
)
def test_arithmetic(operator: str, left: str, right: str, expected: str | None) -> None:
    found = arithmetic_type(operator, parse_type(left), parse_type(right))
    assert (str(found) if found else None) == expected


def test_every_scalar_casts_to_itself_and_to_text() -> None:
    for name, targets in CASTS.items():
        assert name in targets
        assert "VARCHAR" in targets


@pytest.mark.parametrize(
    ("source", "target", "cast", "widen"),
    [
        ("INTEGER", "BIGINT", True, True),
        ("BIGINT", "INTEGER", True, False),
        ("VARCHAR(5)", "VARCHAR(10)", True, True),
        ("VARCHAR", "VARCHAR(10)", True, False),
        ("INTEGER", "DECIMAL(10,0)", True, True),
        ("INTEGER", "DECIMAL(9,0)", True, False),
        ("STRUCT<a INTEGER>", "STRUCT<a BIGINT>", True, True),
        ("STRUCT<a INTEGER>", "STRUCT<b BIGINT>", True, False),
        ("MAP<VARCHAR,INTEGER>", "MAP<VARCHAR,BIGINT>", True, True),
        ("ARRAY<INTEGER>", "ARRAY<DOUBLE>", True, True),
        ("ARRAY<INTEGER>", "VARCHAR", True, False),
        ("ARRAY<INTEGER>", "INTEGER", False, False),
        ("DATE", "TIMESTAMP", True, True),
        ("TIMESTAMP", "BIGINT", False, False),
    ],
)
def test_casts_and_widening(source: str, target: str, cast: bool, widen: bool) -> None:
    a: DataType = parse_type(source)
    b: DataType = parse_type(target)
    assert (can_cast(a, b), widens(a, b)) == (cast, widen)
