"""Comments on columns: where they may be, and which one counts."""

from __future__ import annotations

import pytest

from ds_dagster.diagnostics import Span
from ds_dagster.sql import parse_statement
from ds_dagster.sql.column_comments import column_comments
from ds_dagster.sql.statements import CreateRelation


def comments(sql: str) -> dict[str, str]:
    """The comments on the columns of a CREATE with a column list."""
    statement = parse_statement(sql)
    assert isinstance(statement, CreateRelation)
    return dict(column_comments(statement.origin, [(column.name, column.span) for column in statement.columns]))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("a INT COMMENT 'the first', b INT", {"a": "the first"}),
        ("a INT NOT NULL COMMENT 'it''s', b INT", {"a": "it's"}),
        ("a INT, -- beside the comma\n b INT -- the last one\n", {"a": "beside the comma", "b": "the last one"}),
        ("\n-- above,\n-- on two lines\n a INT,\n b INT", {"a": "above, on two lines"}),
        ("a INT COMMENT 'wins', -- not this\n b INT", {"a": "wins"}),
        ("\n-- above\n a INT, -- beside wins\n b INT", {"a": "beside wins"}),
        ("a INT, -- of a\n\n -- of b\n b INT", {"a": "of a", "b": "of b"}),
        ("m MAP<VARCHAR, ARRAY<INT>>, -- a map\n b INT", {"m": "a map"}),
        ("d DECIMAL(10, 2), -- money\n b INT", {"d": "money"}),
        ("a INT, b INT, -- the last of the line\n c INT", {"b": "the last of the line"}),
        ('"comment" VARCHAR, b INT', {}),
        ("a INT /* no comment of a column */, b INT", {}),
    ],
)
def test_comments_of_a_column_list(columns: str, expected: dict[str, str]) -> None:
    assert comments(f"CREATE STREAM s ({columns}) WITH ('value.format'='json')") == expected


def test_a_statement_may_be_anywhere_in_its_file() -> None:
    statement = parse_statement("\n\n   CREATE STREAM s (a INT, -- first\n b INT) WITH ('value.format'='json')")
    assert isinstance(statement, CreateRelation)
    by_name = column_comments(statement.origin, [(column.name, column.span) for column in statement.columns])
    assert dict(by_name) == {"a": "first"}


def test_a_column_of_another_statement_has_no_comment() -> None:
    statement = parse_statement("CREATE STREAM s (a INT, -- first\n b INT) WITH ('value.format'='json')")
    assert not column_comments(statement.origin, [("a", Span("sql", 900, 1)), ("b", None)])
