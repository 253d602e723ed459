"""Typographic quotes of published texts: read where a quote is expected, with a warning; letters inside texts."""

from __future__ import annotations

import pytest

from ds_dagster.sql import parse_file
from ds_dagster.sql.statements import CreateStore

PUBLISHED = (
    "CREATE STORE prod_kinesis WITH ( 'type' = KINESIS, 'availability_zone'='us-east-2', "
    "'uris'=’https://kinesis.us-east-2.amazonaws.com:443', 'config_file'='./kinesis.properties' );"
)


def store(text: str) -> CreateStore:
    found = parse_file("a.sql", text).statements[0]
    assert isinstance(found, CreateStore)
    return found


def test_the_published_statement() -> None:
    parsed = parse_file("a.sql", PUBLISHED)
    assert [(found.condition, found.severity) for found in parsed.diagnostics] == [("TYPOGRAPHIC_QUOTE", "warning")]
    found = parsed.diagnostics[0]
    assert found.span is not None and PUBLISHED[found.span.column - 1] == "’"
    assert "’" in found.message and "'" in found.hint
    values = {item.name: item.value for item in store(PUBLISHED).properties}
    assert values["uris"] == "https://kinesis.us-east-2.amazonaws.com:443"


@pytest.mark.parametrize("written", ["‘x’", "’x’", "’x'", "‘x'", "“x”"])
def test_pairs(written: str) -> None:
    made = store(f"CREATE STORE s WITH ('a' = {written})")
    assert made.properties[0].value == "x"
    assert len(parse_file("a.sql", f"CREATE STORE s WITH ('a' = {written})").diagnostics) == 1


def test_inside_a_text_or_comment_they_are_letters() -> None:
    parsed = parse_file("a.sql", "-- it’s fine\nCREATE STORE s WITH ('a' = 'it’s “fine”');")
    assert parsed.diagnostics == ()
    assert store("CREATE STORE s WITH ('a' = 'it’s “fine”');").properties[0].value == "it’s “fine”"
