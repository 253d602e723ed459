"""What to do about mistakes of the first hour."""

from __future__ import annotations

import pytest

from tests.plan.conftest import Compile

HINTS = {
    'CREATE STREAM s AS SELECT url FROM clicks WHERE url = "desktop"': (
        "did you mean 'desktop' (a text is written in single quotes)?"
    ),
    "CREATE CHANGELOG s AS SELECT window_start, COUNT(*) AS n FROM clicks GROUP BY window_start": "did you mean "
    "TUMBLE(relation, SIZE n unit) in FROM, which gives it?",
    "CREATE STREAM s AS SELECT call_gemini(url) AS n FROM clicks": "declare your own with CREATE FUNCTION call_gemini; "
    "the functions of the dialect are on the page Functions of the documentation",
    "CREATE STREAM s AS SELECT UPER(url) AS n FROM clicks": "did you mean UPPER?",
    "CREATE CHANGELOG s AS SELECT a.userid, a.name FROM users a FULL JOIN accounts b ON a.userid = b.userid": (
        "add userid to the SELECT list"
    ),
    "CREATE CHANGELOG s AS SELECT url, ANY_VALUE(ARRAY[at]) AS a FROM clicks GROUP BY url": (
        "write ANY_VALUE(orderable); CAST converts a value"
    ),
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM clicks GROUP BY (UPPER(url))": "add UPPER(url) to the SELECT list",
    "CREATE CHANGELOG s AS SELECT at, COUNT(*) AS n, GROUPING_ID(at, at + 1) AS sets FROM clicks "
    "GROUP BY ROLLUP (at, at + 1)": "add at + 1 to the SELECT list",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM clicks GROUP BY CASE WHEN at IN (1) THEN url END": (
        "add CASE WHEN at IN (CAST(1 AS BIGINT)) THEN url ELSE CAST(NULL AS VARCHAR) END to the SELECT list"
    ),
}


@pytest.mark.parametrize("sql", HINTS)
def test_hints(sql: str, compile_sql: Compile) -> None:
    assert HINTS[sql] in [found.hint for found in compile_sql(sql + ";").diagnostics]


def test_the_key_that_is_lost_is_named_with_its_own_source(compile_sql: Compile) -> None:
    sql = "CREATE CHANGELOG s AS SELECT a.userid, a.name FROM users a FULL JOIN accounts b ON a.userid = b.userid;"
    (found,) = [one for one in compile_sql(sql).diagnostics if one.condition == "CHANGELOG_KEY_LOST"]
    assert "key column userid of changelog b " in found.message
