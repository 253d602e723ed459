"""Compiling a case and telling what is wrong, without Spark; the runner itself is under test by every case there is."""

from __future__ import annotations

from typing import NoReturn

import pytest

from ds_dagster.testing.runner import find_cases, run_case

STREAM = """
title: t
sql: |
  CREATE STREAM a (x BIGINT) WITH ('topic' = 'a', 'value.format' = 'json');
  CREATE STREAM b AS SELECT {column} FROM a;
stores: {{s: memory}}
"""


def no_session() -> NoReturn:
    raise AssertionError("nothing has to run")


def told(path) -> str:
    result = run_case(path, no_session, root=path.parent)
    assert not result.ok
    return "\n".join(failure.text for failure in result.failures)


def test_the_expected_mistake_passes(write_case):
    path = write_case(STREAM.format(column="y") + "error: {condition: UNKNOWN_COLUMN, line: 2}\n")
    assert run_case(path, no_session).ok


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("{condition: UNKNOWN_COLUMN, line: 1}", "expected the mistake UNKNOWN_COLUMN in line 1"),
        ("{condition: UNKNOWN_TABLE}", "expected the mistake UNKNOWN_TABLE"),
    ],
)
def test_another_mistake_than_expected(write_case, error, text):
    shown = told(write_case(STREAM.format(column="y") + f"error: {error}\n"))
    assert text in shown
    assert "another mistake than the expected one" in shown
    assert "sql:2:27" in shown


def test_no_mistake_where_one_is_expected(write_case):
    assert told(write_case(STREAM.format(column="x") + "error: {condition: UNKNOWN_COLUMN}\n")) == (
        "expected the mistake UNKNOWN_COLUMN"
    )


def test_a_mistake_where_none_is_expected(write_case):
    shown = told(write_case(STREAM.format(column="y") + "expect: {relation: b, rows: []}\n"))
    assert "[UNKNOWN_COLUMN]" in shown


def test_what_is_wrong_with_the_file_is_its_failure(write_case):
    result = run_case(write_case("title: t\nsqll: x\n"), no_session)
    assert [failure.span.line for failure in result.failures if failure.span] == [2]


def test_cases_are_found_once_and_in_order(write_case, tmp_path):
    first = write_case("title: t\n", "a.case.yaml")
    second = write_case("title: t\n", "b.case.yaml")
    write_case("title: t\n", "c.yaml")
    assert find_cases([second, tmp_path]) == [second.resolve(), first.resolve()]
