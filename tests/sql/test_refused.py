"""Every refusal: its condition and the place it points at (a ‸ in the fixture, taken out before parsing)."""

from __future__ import annotations

import pytest

from ds_dagster.conditions import CONDITIONS
from ds_dagster.conditions.sql import statements, syntax
from ds_dagster.errors import DsError, NotYetError, UnsupportedError, UserError
from ds_dagster.sql import parse_file, parse_statement
from ds_dagster.sql.grammar.command import REFUSED_LISTS
from ds_dagster.sql.hints.refusals import REFUSED, refused
from ds_dagster.sql.parser import DeltaStreamParser
from tests.sql.conftest import Case, cases
from tests.tables import check_every

MARK = "‸"
CASES = cases("refused/syntax")
ELSEWHERE = {"TYPOGRAPHIC_QUOTE", "COMMENT_TAG_UNKNOWN", "CTE_UNUSED"}
"""Warnings, in test_comments.py, test_quotes.py and test_hints.py."""


def places(marked: str) -> tuple[str, list[tuple[int, int]]]:
    found = []
    text = marked
    while MARK in text:
        before, text = text.split(MARK, 1)
        found.append((before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1))
        text = before + text
    return text, found


def test_condition_and_place() -> None:
    check_every(CASES, check_condition_and_place)


def check_condition_and_place(case: Case) -> None:
    text, expected = places(case.sql)
    parsed = parse_file("a.sql", text)
    named = case.title.split()
    assert [found.condition for found in parsed.diagnostics] == named
    shown = [(found.span.line, found.span.column) for found in parsed.diagnostics if found.span]
    assert shown == expected
    assert parsed.statements == ()
    assert [one.condition for one in parsed.broken] == named[:1]
    for found in parsed.diagnostics:
        assert found.hint and "{" not in found.message.replace("${", "") + found.hint.replace("${", ""), found


def test_alone_it_is_an_exception_of_its_kind() -> None:
    check_every(CASES, check_exception)


def check_exception(case: Case) -> None:
    text, _ = places(case.sql)
    first = case.title.split()[0]
    kinds = {"user": UserError, "not_yet": NotYetError, "unsupported": UnsupportedError}
    with pytest.raises(DsError) as caught:
        parse_statement(text)
    assert caught.value.condition == first
    assert isinstance(caught.value, kinds[CONDITIONS[first].kind])


def test_every_known_form_is_refused_by_its_name() -> None:
    check_every(sorted(REFUSED), check_refused_by_its_name, name=" ".join)


def check_refused_by_its_name(words: tuple[str, ...]) -> None:
    text = " ".join(words).upper() + " something;\nCREATE DATABASE d;"
    parsed = parse_file("a.sql", text)
    found = parsed.diagnostics[0]
    assert found.condition == refused((*words, "something"))[1]  # type: ignore[index]
    assert found.span is not None
    assert (found.span.line, found.span.column) == (1, 1)
    assert words == ("begin", "application") or len(parsed.statements) == 1, "parsing goes on behind it"


def test_every_condition_of_the_topic_has_a_fixture(request: pytest.FixtureRequest) -> None:
    folder = request.path.parents[1] / "fixtures" / "refused" / "syntax"
    shown = {
        word
        for path in folder.glob("*.sql")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("-- case: ")
        for word in line.removeprefix("-- case: ").split()
    }
    assert {condition.name for condition in (*syntax.CONDITIONS, *statements.CONDITIONS)} - ELSEWHERE == shown


def test_tables_of_refusals_name_conditions_that_exist() -> None:
    assert {*REFUSED.values(), *REFUSED_LISTS.values()} <= set(CONDITIONS)


def test_all_mistakes_of_a_file_at_once_and_the_rest_is_read() -> None:
    text = (
        "CREATE STREM a;\nCREATE DATABASE one;\nSELECT FROM t;\nCREATE STREAM b (x INTT) WITH ('a'='b');\nUSE STORE s;"
    )
    parsed = parse_file("a.sql", text)
    assert [found.condition for found in parsed.diagnostics] == ["CREATE_UNKNOWN", "SYNTAX_EXPECTED", "TYPE_UNKNOWN"]
    assert [type(statement).__name__ for statement in parsed.statements] == ["CreateDatabase", "Use"]
    assert [str(one.name) if one.name else None for one in parsed.broken] == [None, None, "b"]
    assert [one.kind for one in parsed.broken] == [None, None, "stream"]


def test_an_open_quote_spoils_its_statement_alone() -> None:
    stores = "CREATE STORE s WITH ('uris' = 'x);\nCREATE STORE t WITH ('type' = 'k');\n"
    text = f"CREATE DATABASE a;\n{stores}CREATE DATABASE b;"
    parsed = parse_file("a.sql", text)
    assert [(found.condition, found.span.line, found.span.column) for found in parsed.diagnostics if found.span] == [
        ("SYNTAX_UNTERMINATED", 2, 31)
    ]
    assert [str(statement.name) for statement in parsed.statements if not hasattr(statement, "what")] == ["a", "t", "b"]


def test_messages_show_no_text_in_quotes_and_no_value_of_a_secret() -> None:
    text = "CREATE STORE s WITH ('kafka.sasl.password' = 'hunter2' 'hunter2', 'type' = KAFKA);"
    found = parse_file("a.sql", text).diagnostics[0]
    assert "hunter2" not in found.text()
    assert "kafka.sasl.password" in found.fragment


def test_nearest_names_are_shown() -> None:
    assert "STREAM" in parse_file("a.sql", "CREATE STREM a").diagnostics[0].hint
    assert "VARCHAR" in parse_file("a.sql", "CREATE STREAM a (b VARCHR) WITH ('a'='b')").diagnostics[0].hint


def test_duplicates_name_both_places() -> None:
    found = parse_file("a.sql", "CREATE STORE s WITH ('a' = 1,\n 'b' = 2, 'A' = 3);").diagnostics[0]
    assert "a.sql:1:22" in found.message
    assert [(span.line, span.column) for span in found.related] == [(1, 22)]
    assert (found.span.line, found.span.column) == (2, 11) if found.span else False


def test_the_parser_has_no_door_to_sqlglots_unparsed_commands() -> None:
    assert "Command" not in {type(statement).__name__ for statement in parse_file("a.sql", "SHOW STREAMS").statements}
    assert not any(name.startswith("_parse_as_command") for name in vars(DeltaStreamParser))


@pytest.mark.parametrize(
    "text", ["CREATE STREAM a AS SELECT 1e FROM b;", "CREATE STORE s WITH ('type' = KAFKA, 'a' = -1e);"]
)
def test_an_exponent_without_digits_is_no_number(text: str) -> None:
    (found,) = parse_file("a.sql", text).diagnostics
    assert found.condition == "SYNTAX_EXPECTED"
    assert found.span is not None
