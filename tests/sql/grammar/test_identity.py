"""Parse → print → parse is the identity for every statement the dialect has."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.sql import parse_file, parse_statement, print_statement
from ds_dagster.sql.statements import Origin

EXAMPLE = Path(__file__).parents[3] / "sql"


def meaning(value: Any) -> Any:
    """A record without places, texts and comments."""
    if isinstance(value, Span | Origin):
        return None
    if isinstance(value, exp.Expr):
        return (type(value), {key: meaning(arg) for key, arg in value.args.items() if arg not in (None, [], False)})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value), {field.name: meaning(getattr(value, field.name)) for field in dataclasses.fields(value)})
    if isinstance(value, tuple | list):
        return [meaning(item) for item in value]
    return value


def test_prints_as_written_down_and_comes_back(parse_case: Any) -> None:
    case = parse_case
    first = parse_statement(case.sql)
    printed = print_statement(first)
    assert printed == case.expected
    again = parse_statement(printed)
    assert print_statement(again) == printed
    assert meaning(again) == meaning(first)


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("*.sql")), ids=lambda path: path.name)
def test_the_example_project_parses_without_a_word(path: Any) -> None:
    parsed = parse_file(path.name, path.read_text("utf-8"))
    assert [found.text() for found in parsed.diagnostics] == []
    for statement in parsed.statements:
        assert meaning(parse_statement(print_statement(statement))) == meaning(statement)


def test_a_different_statement_is_not_the_same_meaning() -> None:
    one, other = parse_statement("SELECT a FROM t WHERE a = 1"), parse_statement("SELECT a FROM t WHERE a = 2")
    assert meaning(one) != meaning(other)


@pytest.mark.sweep
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "||"])
def test_a_long_chain_of_an_operator_prints_without_recursion(operator: str) -> None:
    text = f"SELECT {f' {operator} '.join('a' * 3000)} AS b FROM t"
    assert print_statement(parse_statement(text)) == text
