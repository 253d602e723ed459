# ruff: noqa: E501 - statements stay on one line
"""``'state.ttl.millis'``: what no change touches is forgotten by the steps over changelogs, and what that means."""

from __future__ import annotations

import pytest

CLICKS = """
CREATE STREAM clicks (event_time BIGINT, url VARCHAR, userid VARCHAR, amount INTEGER)
  WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 'event_time');
"""
ORDERS = """
CREATE CHANGELOG orders (id VARCHAR, customer VARCHAR, amount INTEGER, PRIMARY KEY(id))
  WITH ('topic' = 'orders', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id VARCHAR>');
CREATE CHANGELOG customers (name VARCHAR, city VARCHAR, PRIMARY KEY(name))
  WITH ('topic' = 'customers', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<name VARCHAR>');
"""
SHORT = "QUERY WITH ('state.ttl.millis' = 1000)"
LONG = "QUERY WITH ('state.ttl.millis' = 86400000)"
BEAT = "beat"


def order(bench, id_, customer, amount):
    value = None if customer is None else {"id": id_, "customer": customer, "amount": amount}
    bench.send("orders", value, key={"id": id_})


def named(bench, name, city):
    bench.send("customers", None if city is None else {"name": name, "city": city}, key={"name": name})


def click(bench, url, userid="u", amount=1):
    bench.send("clicks", {"event_time": 0, "url": url, "userid": userid, "amount": amount})


class Clock:
    """The wall clock of a query's batches, moved by hand. Spark has no setting for it: its field is replaced before the
    first batch."""

    def __init__(self, bench, query, millis=1_000_000):
        jvm = bench.spark._jvm
        self.clock = jvm.org.apache.spark.util.ManualClock(millis)
        execution = query._jsq.streamingQuery()
        kind = execution.getClass()
        while not any(field.getName() == "triggerClock" for field in kind.getDeclaredFields()):
            kind = kind.getSuperclass()
        field = kind.getDeclaredField("triggerClock")
        field.setAccessible(True)
        field.set(execution, self.clock)

    def wait(self, millis):
        self.clock.advance(millis)


def answers(bench, *columns):
    return {tuple(row[c] for c in columns) for row in bench.folded().values() if BEAT not in row.values()}


def test_a_group_that_nothing_touches_begins_anew(bench):
    bench.compile(CLICKS + f"CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url {SHORT};")
    query = bench.start("c")
    clock = Clock(bench, query)
    bench.send("clicks", *[{"event_time": 0, "url": "a"}] * 2)
    bench.settle(query)
    assert answers(bench, "url", "n") == {("a", 2)}
    clock.wait(999)
    click(bench, BEAT)
    bench.settle(query)
    clock.wait(1)
    click(bench, BEAT)
    bench.settle(query)
    assert answers(bench, "url", "n") == {("a", 2)}, "nothing is emitted when state is forgotten"
    assert query.lastProgress["stateOperators"][0]["numRowsTotal"] == 1, "and it is gone"
    click(bench, "a")
    bench.settle(query)
    assert answers(bench, "url", "n") == {("a", 1)}


def test_state_keeps_its_age_over_a_restart_with_another_ttl(bench):
    made = CLICKS + "CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url {};"
    first = bench.compile(made.format(SHORT)).queries["c"]
    query = bench.start("c")
    clock = Clock(bench, query)
    click(bench, "a")
    bench.settle(query)
    bench.stop()
    second = bench.compile(made.format(LONG)).queries["c"]
    assert first.fingerprint != second.fingerprint and first.state_signature == second.state_signature
    query = bench.start("c")
    clock = Clock(bench, query, 1_000_500)
    click(bench, "b")
    bench.settle(query)
    clock.wait(500)
    bench.send("clicks", *({"event_time": 0, "url": url} for url in "ab"))
    bench.settle(query)
    assert answers(bench, "url", "n") == {("a", 1), ("b", 2)}, "a was written with the short time, b with the long one"


def test_a_value_of_distinct_is_forgotten_by_itself(bench):
    bench.compile(
        CLICKS
        + f"""CREATE CHANGELOG c AS SELECT url, COUNT(DISTINCT userid) AS users, COUNT(*) AS n FROM clicks GROUP BY url {SHORT};"""
    )
    query = bench.start("c")
    clock = Clock(bench, query)
    click(bench, "a", "old")
    bench.settle(query)
    for _ in range(2):
        clock.wait(500)
        click(bench, "a", "busy")
        bench.settle(query)
    rows = {row["url"]: row["users"] for row in bench.folded().values()}
    assert rows == {"a": 2}, "the group is busy, so what was counted stays"
    click(bench, "a", "old")
    bench.settle(query)
    assert {row["url"]: row["users"] for row in bench.folded().values()} == {"a": 3}


def test_a_changelog_whose_rows_are_forgotten_is_never_a_fault(bench):
    bench.compile(
        ORDERS
        + f"""CREATE CHANGELOG c WITH ('primary.key.nullable' = TRUE) AS SELECT customer, COUNT(*) AS n, SUM(amount) AS s, MIN(amount) AS lo, COUNT(DISTINCT amount) AS d FROM orders GROUP BY customer {SHORT};"""
    )
    query = bench.start("c")
    clock = Clock(bench, query)
    order(bench, "1", "x", 5)
    order(bench, "2", "x", 7)
    bench.settle(query)
    assert answers(bench, "customer", "n", "s", "lo", "d") == {("x", 2, 12, 5, 2)}
    clock.wait(1_000)
    order(bench, "1", "x", 6)
    bench.settle(query)
    assert answers(bench, "customer", "n", "s", "lo", "d") == {("x", 1, 6, 6, 1)}
    order(bench, "2", None, None)
    order(bench, "1", None, None)
    bench.settle(query)
    assert answers(bench, "customer", "n") == set()


@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_a_join_meets_only_rows_that_are_kept(kind, bench):
    bench.compile(
        ORDERS
        + f"CREATE CHANGELOG j AS SELECT o.id, c.city FROM orders o {kind} JOIN customers c ON o.customer = c.name {SHORT};"
    )
    query = bench.start("j")
    clock = Clock(bench, query)
    order(bench, "1", "x", 1)
    named(bench, "x", "Rome")
    bench.settle(query)
    assert answers(bench, "id", "city") == {("1", "Rome")}
    clock.wait(1_000)
    order(bench, "2", "x", 1)
    bench.settle(query)
    alone = {("2", None)} if kind else set()
    assert answers(bench, "id", "city") == {("1", "Rome"), *alone}, "what was emitted stays"
    named(bench, "x", "Oslo")
    bench.settle(query)
    assert answers(bench, "id", "city") == {("1", "Rome"), ("2", "Oslo")}
    named(bench, "x", None)
    bench.settle(query)
    assert answers(bench, "id", "city") == {("1", "Rome"), *alone}


def test_an_idle_query_that_forgets_runs_no_batches(bench, eventually):
    bench.compile(CLICKS + f"CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url {SHORT};")
    query = bench.start("c")
    Clock(bench, query)
    click(bench, "a")
    bench.settle(query)
    last = query.lastProgress["batchId"]
    bench.settle(query)
    eventually(lambda: "Waiting for data" in query.status["message"])
    assert query.lastProgress["batchId"] in (last, last + 1), (
        "the report of a look that found nothing has the next number"
    )
    assert sum(progress["numInputRows"] > 0 for progress in query.recentProgress) == 1


def test_steps_that_forget_stand_over_joins_that_wait_for_time(bench):
    bench.compile(
        CLICKS
        + f"""CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, at BIGINT, PRIMARY KEY(userid))
               WITH ('topic' = 'users', 'value.format' = 'json', 'timestamp' = 'at');
             CREATE CHANGELOG c AS SELECT u.region, COUNT(*) AS n FROM clicks c LEFT JOIN users u ON c.userid = u.userid
               GROUP BY u.region {LONG};""".replace(
            "CREATE CHANGELOG c AS", "CREATE CHANGELOG c WITH ('primary.key.nullable' = TRUE) AS"
        )
    )
    query = bench.start("c")
    bench.send("users", {"userid": "u", "region": "EU", "at": 5}, key="u")
    bench.send("clicks", *({"event_time": t, "url": "x", "userid": "u"} for t in (1, 10, 20)))
    bench.advance(query, 1_000)
    assert answers(bench, "region", "n") == {(None, 1), ("EU", 2)}
    bench.stop()
    query = bench.start("c")
    bench.send("clicks", {"event_time": 1_500, "url": "x", "userid": "u"})
    bench.advance(query, 2_000)
    assert answers(bench, "region", "n") == {(None, 1), ("EU", 3)}


def test_windows_below_close_as_they_would(bench):
    bench.compile(
        CLICKS
        + f"""CREATE CHANGELOG c AS SELECT n, COUNT(*) AS windows FROM (SELECT window_start, window_end, url, COUNT(*) AS n
               FROM TUMBLE(clicks, SIZE 1 SECOND) GROUP BY window_start, window_end, url) w GROUP BY n {LONG};"""
    )
    query = bench.start("c")
    bench.send("clicks", *({"event_time": t, "url": "x"} for t in (1, 10, 1_200, 2_500, 2_600)))
    bench.advance(query, 2_000)
    assert answers(bench, "n", "windows") == {(2, 1), (1, 1)}
    bench.advance(query, 3_000)
    assert answers(bench, "n", "windows") == {(2, 2), (1, 1)}
