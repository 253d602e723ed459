"""Rules over the traits of nodes: each is met by a refused query, and traits are those of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ds_dagster.plan.checks import stacking
from ds_dagster.plan.checks.stacking import Need, StackingRule
from ds_dagster.plan.nodes.node import Node
from tests.plan.conftest import Compile
from tests.plan.test_refused import CASES, places


def test_every_rule_refuses_a_query(compile_sql: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[tuple[str, str]] = set()

    def watched(rule: StackingRule) -> StackingRule:
        def lacking(node: Node) -> str:
            lower = rule.need.lacking(node)
            met.update([(rule.upper, rule.need.text)] if lower else [])
            return lower

        return replace(rule, need=Need(rule.need.text, lacking))

    monkeypatch.setattr(stacking, "RULES", tuple(map(watched, stacking.RULES)))
    conditions = {rule.condition for rule in stacking.RULES}
    for title, sql in CASES:
        if conditions & set(title.split()):
            compile_sql(places(sql)[0])
    assert {(rule.upper, rule.need.text) for rule in stacking.RULES} == met


WINDOWED = """SELECT window_start, window_end, url, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 1 MINUTE)
  GROUP BY window_start, window_end, url"""
TRAITS: dict[str, tuple[str, bool, bool, bool]] = {
    "CREATE STREAM s AS SELECT url, at FROM clicks WHERE ok": ("", True, True, True),
    "CREATE STREAM s AS SELECT url FROM clicks UNION ALL SELECT url FROM views": ("", True, True, True),
    "CREATE STREAM s AS SELECT c.url FROM clicks c JOIN views v WITHIN 5 MINUTES ON c.url = v.url": (
        *("", False, True, True),
    ),
    "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url": ("an aggregate", False, True, False),
    f"CREATE CHANGELOG s AS {WINDOWED}": ("", False, True, True),
    f"CREATE CHANGELOG s AS {WINDOWED} QUERY WITH ('emit.mode' = 'updates')": ("", False, True, False),
    "CREATE STREAM s AS SELECT DISTINCT url FROM clicks": ("SELECT DISTINCT", False, False, True),
    "CREATE CHANGELOG s AS SELECT u.userid FROM users u JOIN accounts a ON u.userid = a.userid": (
        *("a changelog", False, True, False),
    ),
    "CREATE STREAM s AS SELECT url FROM clicks WHERE url IN (SELECT url FROM views)": (
        *("a condition with a sub-select", False, False, True),
    ),
}
"""Query → the step that does not pass event time on, whether rows are in order, whether state is bounded, whether rows
only ever become more."""


@pytest.mark.parametrize("sql", TRAITS)
def test_traits(sql: str, compile_sql: Compile) -> None:
    project = compile_sql(f"{sql};")
    assert not project.errors, [problem.text() for problem in project.errors]
    rows = project.queries["s"].root.input
    assert (rows.untimed, rows.is_ordered, rows.is_bounded, rows.only_grows) == TRAITS[sql]


def test_a_function_that_gives_another_value_each_time_is_not_repeatable(compile_sql: Compile) -> None:
    once = compile_sql("CREATE STREAM s AS SELECT url FROM (SELECT url, RAND() AS r FROM clicks) q WHERE r > 0.5;")
    root = once.queries["s"].root
    assert not root.is_repeatable
    assert [node.unrepeatable for node in root.walk() if node.unrepeatable] == [("RAND",)]
    assert compile_sql("CREATE STREAM s AS SELECT UPPER(url) AS u FROM clicks;").queries["s"].root.is_repeatable


KEPT: tuple[Callable[[Node], object], ...] = (lambda node: node.untimed, lambda node: node.windows)


def test_a_trait_is_computed_once(compile_sql: Compile) -> None:
    rows = compile_sql("CREATE STREAM s AS SELECT url FROM clicks;").queries["s"].root.input
    for trait in KEPT:
        assert trait(rows) is trait(rows)
