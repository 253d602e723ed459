# ruff: noqa: E501 - statements stay on one line
"""``'state.ttl.millis'`` of ranks and DISTINCT: partitions and values that no change touches begin anew."""

from __future__ import annotations

from tests.spark.operators.test_state_ttl import CLICKS, ORDERS, SHORT, Clock, answers, click, order


def test_a_partition_that_nothing_touches_begins_anew(bench):
    bench.compile(
        CLICKS
        + f"CREATE CHANGELOG c AS SELECT url, amount FROM (SELECT url, amount, ROW_NUMBER() OVER (PARTITION BY url ORDER BY amount DESC) AS rn FROM clicks) q WHERE rn = 1 {SHORT};"
    )
    query = bench.start("c")
    clock = Clock(bench, query)
    click(bench, "a", amount=9)
    click(bench, "b", amount=9)
    bench.settle(query)
    clock.wait(600)
    click(bench, "b", amount=10)
    bench.settle(query)
    clock.wait(600)
    click(bench, "a", amount=1)
    click(bench, "b", amount=1)
    bench.settle(query)
    assert answers(bench, "url", "amount") == {("a", 1), ("b", 10)}


def test_a_row_that_goes_after_it_was_forgotten_is_no_fault(bench):
    bench.compile(
        ORDERS
        + f"CREATE CHANGELOG c AS SELECT id, amount FROM (SELECT id, amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount) AS rn FROM orders) q WHERE rn <= 2 {SHORT};"
    )
    query = bench.start("c")
    clock = Clock(bench, query)
    order(bench, "1", "x", 1)
    bench.settle(query)
    clock.wait(600)
    order(bench, "1", "x", 1)  # its row is kept on, its partition is not touched
    bench.settle(query)
    clock.wait(600)
    order(bench, "1", None, None)
    bench.settle(query)
    assert answers(bench, "id", "amount") == {("1", 1)}, "what was written stays"
    order(bench, "2", "x", 5)
    bench.settle(query)
    assert answers(bench, "id", "amount") == {("1", 1), ("2", 5)}


def test_a_value_that_was_forgotten_comes_again(bench):
    bench.compile(CLICKS + f"CREATE STREAM c AS SELECT DISTINCT url FROM clicks {SHORT};")
    query = bench.start("c")
    clock = Clock(bench, query)
    click(bench, "a")
    click(bench, "b")
    bench.settle(query)
    clock.wait(600)
    click(bench, "b")
    bench.settle(query)
    clock.wait(600)
    click(bench, "a")
    click(bench, "b")
    bench.settle(query)
    assert sorted(row["url"] for row in bench.values) == ["a", "a", "b"]
