"""The comment above a statement, its tags, and the context of USE."""

from __future__ import annotations

from ds_dagster.sql import parse_file
from ds_dagster.sql.statements import Comment, Context


def comment(text: str) -> Comment:
    return parse_file("a.sql", text).statements[-1].origin.comment


def test_description_and_tags() -> None:
    found = comment(
        "-- Counts clicks.\n--   Indented.\n-----------\n-- @owner team:web, ana@example.com\n-- @owner bob\n"
        "-- @group clicks\n-- @freshness 10m\n-- @kinds kafka, json\n-- @x-y: z\nCREATE DATABASE d;"
    )
    assert found.description == "Counts clicks.\n  Indented."
    assert found.owners == ("team:web", "ana@example.com", "bob")
    assert (found.group, found.freshness) == ("clicks", "10m")
    assert found.tags == (("kinds", "kafka, json"), ("x-y", "z"))


def test_block_comments() -> None:
    assert comment("/*\n * One.\n *\n * @group g\n */\nCREATE DATABASE d").description == "One."
    assert comment("/* One. */ CREATE DATABASE d").description == "One."


def test_an_empty_line_cuts_off() -> None:
    assert comment("-- About the file.\n\n-- About d.\nCREATE DATABASE d").description == "About d."
    assert comment("-- About the file.\n\nCREATE DATABASE d") == Comment()


def test_behind_the_semicolon_belongs_to_the_statement_before() -> None:
    assert comment("CREATE DATABASE c; -- about c\nCREATE DATABASE d") == Comment()
    assert comment("CREATE DATABASE c; -- about c\n-- about d\nCREATE DATABASE d").description == "about d"


def test_signs_that_are_no_comment() -> None:
    assert comment("CREATE STORE s WITH ('a' = '-- no /* comment */');") == Comment()
    assert comment("-- mail me at a@b.c\nCREATE DATABASE d").description == "mail me at a@b.c"


def test_a_misspelt_tag_is_a_warning() -> None:
    parsed = parse_file("a.sql", "-- Text.\n-- @onwer x\nCREATE DATABASE d;")
    assert [(found.condition, found.severity) for found in parsed.diagnostics] == [("COMMENT_TAG_UNKNOWN", "warning")]
    assert "@owner" in parsed.diagnostics[0].hint
    assert len(parsed.statements) == 1


def test_use_holds_to_the_end_of_the_file() -> None:
    text = (
        "CREATE DATABASE a; USE DATABASE D; CREATE DATABASE b; USE SCHEMA s; USE STORE k; CREATE DATABASE c;"
        "USE SCHEMA x.y; CREATE DATABASE d; USE DATABASE z; CREATE DATABASE e; USE ROLE r; CREATE DATABASE f"
    )
    parsed = parse_file("a.sql", text)
    contexts = [one.origin.context for one in parsed.statements if type(one).__name__ == "CreateDatabase"]
    assert contexts == [
        Context(),
        Context("d"),
        Context("d", "s", "k"),
        Context("x", "y", "k"),
        Context("z", "", "k"),
        Context("z", "", "k"),
    ]
    assert parse_file("b.sql", "CREATE DATABASE a").statements[0].origin.context == Context()


def test_empty_files() -> None:
    for text in ("", "  \n", ";;;", "-- only a comment\n", "/* x */;"):
        parsed = parse_file("a.sql", text)
        assert (parsed.statements, parsed.diagnostics) == ((), ())
