"""Joins that look like rows with the extreme of their window, and are more than that: they stay joins."""

from __future__ import annotations

import pytest

from ds_dagster.plan.nodes.window_join import WindowExtreme
from tests.plan.conftest import Compile

ROWS = "SELECT window_start, window_end, url, userid, amount, at FROM TUMBLE(clicks, SIZE 1 MINUTE)"
MOST = """SELECT window_start, window_end, MAX(amount) AS most
  FROM TUMBLE(clicks, SIZE 1 MINUTE) GROUP BY window_start, window_end"""
OF_USER = MOST.replace("MAX", "userid, MAX").replace("GROUP BY", "GROUP BY userid,")
ON = "b.window_start = m.window_start AND b.window_end = m.window_end AND b.amount = m.most"


def is_extreme(compile_sql: Compile, rows: str, most: str, on: str, kind: str = "JOIN") -> bool:
    project = compile_sql(f"CREATE STREAM s AS SELECT b.url FROM ({rows}) b {kind} ({most}) m ON {on};")
    assert not project.errors, [problem.text() for problem in project.errors]
    return any(isinstance(node, WindowExtreme) for node in project.queries["s"].plan.walk())


def test_the_plain_forms(compile_sql: Compile) -> None:
    assert is_extreme(compile_sql, ROWS, MOST, ON)
    assert is_extreme(compile_sql, ROWS, OF_USER, ON + " AND b.userid = m.userid")


@pytest.mark.parametrize(
    ("rows", "most", "on", "kind"),
    [
        (ROWS, MOST, ON, "LEFT JOIN"),
        (ROWS + " WHERE ok", MOST, ON, "JOIN"),
        (ROWS, MOST.replace("1 MINUTE) GROUP", "1 MINUTE) WHERE ok GROUP"), ON, "JOIN"),
        (ROWS, MOST.replace("MAX(amount)", "MAX(-amount)"), ON, "JOIN"),
        (ROWS, MOST.replace("MAX(amount)", "MAX(CAST(at AS DECIMAL(10, 2)))"), ON, "JOIN"),
        (ROWS, MOST.replace("MAX(amount)", "MAX(url)"), ON.replace("b.amount", "b.url"), "JOIN"),
        (ROWS, MOST.replace("MAX(amount)", "SUM(amount)"), ON, "JOIN"),
        (ROWS, MOST.replace("AS most", "AS most, COUNT(*) AS n"), ON + " AND b.at = m.n", "JOIN"),
        (
            ROWS,
            MOST.replace("window_end\n", "window_end, userid\n").replace("GROUP BY", "GROUP BY userid,"),
            ON,
            "JOIN",
        ),
        (ROWS, MOST.replace("clicks", "views").replace("amount", "at"), ON.replace("b.amount", "b.at"), "JOIN"),
        (ROWS, MOST, ON.replace("b.amount", "b.at"), "JOIN"),
        (ROWS, MOST, ON.replace(" AND b.amount = m.most", ""), "JOIN"),
        (ROWS, OF_USER, ON + " AND b.url = m.userid AND b.userid = m.userid", "JOIN"),
        (ROWS, OF_USER, ON + " AND b.userid = m.userid AND b.url = m.userid", "JOIN"),
        (
            ROWS.replace("TUMBLE(clicks, SIZE 1 MINUTE)", "HOP(clicks, SIZE 1 MINUTE, ADVANCE BY 30 SECONDS)"),
            MOST,
            ON,
            "JOIN",
        ),
    ],
    ids=[
        "outer",
        "filtered rows",
        "filtered maximum",
        "computed value",
        "another value",
        "a text",
        "a sum",
        "two results",
        "a finer group",
        "another stream",
        "another column",
        "no value in ON",
        "another column too, before it",
        "another column too, after it",
        "another window",
    ],
)
def test_what_stays_a_join(compile_sql: Compile, rows: str, most: str, on: str, kind: str) -> None:
    assert not is_extreme(compile_sql, rows, most, on, kind)
