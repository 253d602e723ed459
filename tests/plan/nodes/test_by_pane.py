"""Aggregates whose state may be kept by pane of overlapping windows."""

from __future__ import annotations

import pytest

from ds_dagster.plan.nodes.aggregate import Aggregate
from tests.plan.conftest import Compile

HOP = "HOP(clicks, SIZE 10 MINUTES, ADVANCE BY 1 MINUTE)"
BOUNDS = "window_start, window_end"
BY_PANE = {
    "a hop": f"SELECT {BOUNDS}, url, COUNT(*) AS n FROM {HOP} GROUP BY {BOUNDS}, url",
    "a cumulate": f"SELECT {BOUNDS}, MAX(amount) AS n FROM CUMULATE(clicks, SIZE 10 MINUTES, STEP 1 MINUTE) "
    f"GROUP BY {BOUNDS}",
    "all kinds of functions": f"SELECT {BOUNDS}, COUNT(DISTINCT url) AS n, ARRAY_AGG(url) AS u, FIRST_VALUE(url) AS f, "
    f"STDDEV_POP(amount) AS s, MIN(url) AS m FROM {HOP} GROUP BY {BOUNDS}",
    "a condition on rows": f"SELECT {BOUNDS}, COUNT(*) AS n FROM {HOP} WHERE amount > 1 GROUP BY {BOUNDS}",
    "a sub-select of windows": f"SELECT {BOUNDS}, v, COUNT(*) AS n FROM (SELECT {BOUNDS}, UPPER(url) AS v FROM {HOP} "
    f"WHERE amount > 1) q WHERE v <> 'A' GROUP BY {BOUNDS}, v",
    "a sub-select with other names": f"SELECT b, e, COUNT(*) AS n FROM (SELECT window_start AS b, window_end AS e, "
    f"url FROM {HOP}) q GROUP BY b, e",
}
BY_WINDOW = {
    "a tumble": f"SELECT {BOUNDS}, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 10 MINUTES) GROUP BY {BOUNDS}",
    "a session": f"SELECT {BOUNDS}, COUNT(*) AS n FROM SESSION(clicks, GAP 10 MINUTES) GROUP BY {BOUNDS}",
    "a function of a bound": f"SELECT {BOUNDS}, MAX(window_end) AS n FROM {HOP} GROUP BY {BOUNDS}",
    "a filter of a function": f"SELECT {BOUNDS}, COUNT(*) FILTER (WHERE seen < window_end) AS n FROM {HOP} "
    f"GROUP BY {BOUNDS}",
    "a group made of a bound": f"SELECT {BOUNDS}, YEAR(window_start) AS y, COUNT(*) AS n FROM {HOP} "
    f"GROUP BY {BOUNDS}, YEAR(window_start)",
    "a condition on a bound": f"SELECT {BOUNDS}, COUNT(*) AS n FROM {HOP} WHERE seen < window_start GROUP BY {BOUNDS}",
    "a bound twice": f"SELECT {BOUNDS}, MAX(e) AS n FROM (SELECT {BOUNDS}, window_end AS e FROM {HOP}) q "
    f"GROUP BY {BOUNDS}",
    "a condition in a sub-select": f"SELECT {BOUNDS}, COUNT(*) AS n FROM (SELECT {BOUNDS} FROM {HOP} WHERE "
    f"seen < window_end) q GROUP BY {BOUNDS}",
    "closed windows": f"SELECT {BOUNDS}, MAX(n) AS most FROM (SELECT {BOUNDS}, url, COUNT(*) AS n FROM {HOP} "
    f"GROUP BY {BOUNDS}, url) q GROUP BY {BOUNDS}",
    "a column made of a bound": f"SELECT {BOUNDS}, MAX(y) AS n FROM (SELECT {BOUNDS}, YEAR(window_end) AS y FROM {HOP}"
    f") q GROUP BY {BOUNDS}",
}


def aggregate(compile_sql: Compile, query: str, settings: str = "") -> Aggregate:
    project = compile_sql(f"CREATE CHANGELOG s AS {query}{settings};")
    assert not project.errors, [problem.text() for problem in project.errors]
    nodes = [node for node in project.queries["s"].plan.walk() if isinstance(node, Aggregate)]
    return nodes[0]


@pytest.mark.parametrize("name", BY_PANE)
def test_groups_are_kept_by_pane(compile_sql: Compile, name: str) -> None:
    assert aggregate(compile_sql, BY_PANE[name]).pane_window is not None


@pytest.mark.parametrize("name", BY_WINDOW)
def test_groups_are_kept_by_window(compile_sql: Compile, name: str) -> None:
    assert aggregate(compile_sql, BY_WINDOW[name]).pane_window is None


def test_refined_groups_are_kept_by_window(compile_sql: Compile) -> None:
    settings = " QUERY WITH ('emit.mode' = 'updates')"
    node = aggregate(compile_sql, BY_PANE["a hop"], settings)
    assert node.updates
    assert node.pane_window is None
