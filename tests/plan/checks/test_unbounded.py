"""Which queries are warned of for state that only grows, and which are not."""

from __future__ import annotations

import pytest

from tests.plan.conftest import Compile

TTL = "QUERY WITH ('state.ttl.millis' = 60000)"
WINDOWS = """(SELECT window_start, window_end, userid, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 1 MINUTE)
       GROUP BY window_start, window_end, userid) w"""
WARNED = {
    "SELECT url, COUNT(DISTINCT at) AS n FROM clicks GROUP BY url": "COUNT(DISTINCT at) by url keeps every value",
    f"SELECT w.window_start, w.window_end, w.userid, w.n, u.name FROM {WINDOWS} JOIN users u ON w.userid = u.userid": (
        "the join on userid = userid keeps every row of its left side"
    ),
    "SELECT name, userid FROM users WHERE EXISTS (SELECT 1 FROM clicks WHERE clicks.userid = users.userid)": (
        "EXISTS or IN on userid keeps every row of the sub-select"
    ),
    "SELECT name, userid FROM users WHERE userid NOT IN (SELECT userid FROM clicks WHERE userid IS NOT NULL)": (
        "NOT EXISTS or IN on userid keeps every row of the sub-select"
    ),
    "SELECT url, ARRAY_AGG(at) AS n FROM clicks GROUP BY url": "ARRAY_AGG(at) by url keeps every value",
    "SELECT url, seen, COUNT(*) AS n FROM clicks GROUP BY url, seen": "GROUP BY url, seen keeps a group per seen",
    """SELECT window_start, COUNT(*) AS n FROM (SELECT window_start, window_end, url, COUNT(*) AS c
       FROM TUMBLE(clicks, SIZE 1 MINUTE) GROUP BY window_start, window_end, url) w GROUP BY window_start""": (
        "GROUP BY window_start keeps a group per window_start"
    ),
}
SILENT = (
    "SELECT url, COUNT(*) AS n, MIN(at) AS lo FROM clicks GROUP BY url",
    "SELECT CAST(seen AS DATE) AS day, COUNT(*) AS n FROM clicks GROUP BY CAST(seen AS DATE)",
    "SELECT name, COUNT(DISTINCT at) AS n, ARRAY_AGG(at) AS all_ FROM users GROUP BY name",
    "SELECT u.userid, a.name FROM users u JOIN accounts a ON u.userid = a.userid",
    "SELECT n, COUNT(DISTINCT url) AS urls FROM (SELECT url, COUNT(*) AS n FROM clicks GROUP BY url) q GROUP BY n",
    """SELECT window_start, window_end, COUNT(DISTINCT url) AS n FROM TUMBLE(clicks, SIZE 1 MINUTE)
       GROUP BY window_start, window_end""",
)


def warned(compile_sql: Compile, select: str, with_: str = "") -> list[str]:
    text = f"CREATE CHANGELOG s WITH ('primary.key.nullable' = TRUE) AS {select} {with_};"
    project = compile_sql(text)
    assert not project.errors, [d.text() for d in project.errors]
    assert all((d.condition, d.severity) == ("UNBOUNDED_STATE", "warning") for d in project.diagnostics)
    return [d.message for d in project.diagnostics]


@pytest.mark.parametrize("select", WARNED)
def test_state_that_only_grows_is_named_once(select: str, compile_sql: Compile) -> None:
    (message,) = warned(compile_sql, select)
    assert message.endswith(f": {WARNED[select]}")


@pytest.mark.parametrize("select", WARNED)
def test_nothing_is_said_of_state_that_is_forgotten(select: str, compile_sql: Compile) -> None:
    assert not warned(compile_sql, select, TTL)


@pytest.mark.parametrize("select", SILENT)
def test_state_as_large_as_keys_or_relations_is_not_named(select: str, compile_sql: Compile) -> None:
    assert not warned(compile_sql, select)
