# ruff: noqa: E501 - statements stay on one line
"""Aggregates, windows, joins: on Spark, against what they mean; restarts from the checkpoint."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

SEED = 20240131
CLICKS = """
CREATE STREAM clicks (event_time BIGINT, url VARCHAR, userid VARCHAR, amount INTEGER)
  WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 'event_time');
"""
USERS = """
CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, at BIGINT, PRIMARY KEY(userid))
  WITH ('topic' = 'users', 'value.format' = 'json', 'timestamp' = 'at');
"""


def test_running_aggregate_gives_the_last_value_of_changed_groups(bench):
    bench.compile(
        CLICKS
        + """CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS a, MIN(amount) AS lo,
               MAX(amount) AS hi, COUNT(amount) AS c, COUNT(*) FILTER (WHERE amount > 2) AS big FROM clicks GROUP BY url;"""
    )
    query = bench.start("c")
    bench.send("clicks", {"url": "a", "amount": 1}, {"url": "a", "amount": 4}, {"url": "b"})
    bench.settle(query)
    assert {r["key"]["url"]: r["value"] for r in bench.records} == {
        "a": {"url": "a", "n": 2, "s": 5, "a": 2.5, "lo": 1, "hi": 4, "c": 2, "big": 1},
        "b": {"url": "b", "n": 1, "s": None, "a": None, "lo": None, "hi": None, "c": 0, "big": 0},
    }
    bench.records.clear()
    bench.send("clicks", {"url": "b", "amount": 9})
    bench.settle(query)
    assert [(r["key"], r["value"]["n"]) for r in bench.records] == [({"url": "b"}, 2)]


def test_aggregate_goes_on_after_a_restart(bench):
    bench.compile(CLICKS + "CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;")
    query = bench.start("c")
    bench.send("clicks", {"url": "a"}, {"url": "b"})
    bench.settle(query)
    bench.stop()
    bench.send("clicks", {"url": "a"})
    bench.settle(bench.start("c"))
    assert {key: row["n"] for key, row in bench.folded().items()} == {'{"url": "a"}': 2, '{"url": "b"}': 1}


def test_having_over_a_running_aggregate_deletes_groups_that_fail(bench):
    bench.compile(
        CLICKS + "CREATE CHANGELOG c AS SELECT url, SUM(amount) AS s FROM clicks GROUP BY url HAVING SUM(amount) > 3;"
    )
    query = bench.start("c")
    bench.send("clicks", {"url": "a", "amount": 5}, {"url": "b", "amount": 1})
    bench.settle(query)
    assert bench.folded() == {'{"url": "a"}': {"url": "a", "s": 5}}
    bench.send("clicks", {"url": "a", "amount": -4})
    bench.settle(query)
    assert bench.folded() == {}


def test_null_is_a_group(bench):
    bench.compile(
        CLICKS
        + "CREATE CHANGELOG c AS SELECT COALESCE(url, '-') AS u, COUNT(*) AS n FROM clicks GROUP BY COALESCE(url, '-');"
    )
    query = bench.start("c")
    bench.send("clicks", {"amount": 1}, {"amount": 2})
    bench.settle(query)
    assert [r["value"] for r in bench.records] == [{"u": "-", "n": 2}]


def test_tumbling_window_emits_once_when_time_passes_its_end(bench):
    bench.compile(
        CLICKS
        + """CREATE CHANGELOG w AS SELECT window_start, window_end, url, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 10 SECONDS)
               GROUP BY window_start, window_end, url;"""
    )
    query = bench.start("w")
    bench.send("clicks", *({"event_time": t, "url": "a"} for t in (0, 1000, 9999, 10000)))
    bench.send("clicks", {"event_time": 9_000_000, "url": "far ahead"})
    bench.settle(query)
    assert bench.values == []
    bench.advance(query, 9_999)
    assert bench.values == []
    bench.advance(query, 10_000)
    start = "1970-01-01 00:00:00.000Z"
    assert bench.values == [{"window_start": start, "window_end": "1970-01-01 00:00:10.000Z", "url": "a", "n": 3}]
    bench.records.clear()
    bench.send("clicks", {"event_time": 500, "url": "too late"})
    bench.settle(query)
    bench.stop()
    query = bench.start("w")
    bench.advance(query, 20_000)
    assert [(row["url"], row["n"]) for row in bench.values] == [("a", 1)]


def test_window_with_updates_refines(bench):
    bench.compile(
        CLICKS
        + """CREATE CHANGELOG w AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 10 SECONDS)
               GROUP BY window_start, window_end QUERY WITH ('emit.mode' = 'updates');"""
    )
    query = bench.start("w")
    bench.send("clicks", {"event_time": 1}, {"event_time": 2})
    bench.settle(query)
    bench.send("clicks", {"event_time": 3})
    bench.settle(query)
    assert [row["n"] for row in bench.values] == [2, 3]


INTERVAL = """
CREATE STREAM l (k VARCHAR, t BIGINT, v INTEGER) WITH ('topic' = 'l', 'value.format' = 'json', 'timestamp' = 't');
CREATE STREAM r (k VARCHAR, t BIGINT, w INTEGER) WITH ('topic' = 'r', 'value.format' = 'json', 'timestamp' = 't');
CREATE STREAM j AS SELECT l.v, r.w FROM l {kind} JOIN r WITHIN 5 SECONDS ON l.k = r.k;
"""


def interval_model(left, right, *, outer):
    found = []
    for a in left:
        met = [
            b["w"] for b in right if a.get("k") is not None and a["k"] == b.get("k") and abs(a["t"] - b["t"]) <= 5000
        ]
        found += [(a["v"], w) for w in met] or ([(a["v"], None)] if outer else [])
    return Counter(found)


def test_interval_join_meets_the_model_and_frees_its_state(bench):
    dice = random.Random(SEED)
    bench.compile(INTERVAL.format(kind="LEFT"))
    query = bench.start("j")
    keys = ["a", "b", "c", None]
    left = [{"k": dice.choice(keys), "t": dice.randrange(60_000), "v": n} for n in range(150)]
    right = [{"k": dice.choice(keys), "t": dice.randrange(60_000), "w": n} for n in range(150)]
    for at in range(0, 150, 50):
        bench.send("l", *left[at : at + 50])
        bench.send("r", *right[at : at + 50])
        bench.settle(query)
    bench.advance(query, 200_000)
    assert Counter((row["v"], row["w"]) for row in bench.values) == interval_model(left, right, outer=True)
    bench.send("l", {"k": "z", "t": 300_000, "v": -1})
    bench.settle(query)
    bench.advance(query, 400_000)
    assert query.recentProgress[-1].stateOperators[0].numRowsTotal == 0


WINDOW_JOIN = """
CREATE STREAM l (k VARCHAR, t BIGINT, v INTEGER) WITH ('topic' = 'l', 'value.format' = 'json', 'timestamp' = 't');
CREATE STREAM r (k VARCHAR, t BIGINT, w INTEGER) WITH ('topic' = 'r', 'value.format' = 'json', 'timestamp' = 't');
CREATE STREAM j AS SELECT x.v, y.w FROM TUMBLE(l, SIZE 10 SECONDS) x FULL JOIN TUMBLE(r, SIZE 10 SECONDS) y
  ON x.window_start = y.window_start AND x.window_end = y.window_end AND x.k = y.k;
"""


def test_window_join_forgets_a_window_that_has_closed(bench):
    bench.compile(WINDOW_JOIN)
    query = bench.start("j")
    bench.send("l", {"k": "a", "t": 1000, "v": 1}, {"k": "a", "t": 2000, "v": 2}, {"k": None, "t": 3000, "v": 3})
    bench.send("r", {"k": "a", "t": 9999, "w": 4}, {"k": "a", "t": 10_000, "w": 5}, {"k": "b", "t": 0, "w": 6})
    bench.settle(query)
    assert query.recentProgress[-1].stateOperators[0].numRowsTotal > 0
    bench.advance(query, 9_999)
    assert bench.values == []
    bench.advance(query, 10_000)
    expected = Counter({(1, 4): 1, (2, 4): 1, (3, None): 1, (None, 6): 1})
    assert Counter((row["v"], row["w"]) for row in bench.values) == expected
    bench.advance(query, 20_000)
    assert Counter((row["v"], row["w"]) for row in bench.values) == expected + Counter({(None, 5): 1})
    assert query.recentProgress[-1].stateOperators[0].numRowsTotal == 0


def test_inner_interval_join_emits_at_once(bench):
    bench.compile(INTERVAL.format(kind=""))
    query = bench.start("j")
    bench.send("l", {"k": "a", "t": 1000, "v": 1}, {"k": "a", "t": 7000, "v": 2})
    bench.send("r", {"k": "a", "t": 6000, "w": 9})
    bench.settle(query)
    assert sorted(row["v"] for row in bench.values) == [1, 2]


def temporal_model(clicks, users, *, outer):
    versions = defaultdict(list)
    for order, (key, at, region) in enumerate(users):
        versions[key].append((at, order, region))
    found = []
    for click in clicks:
        known = [v for v in sorted(versions[click["userid"]]) if v[0] <= click["event_time"]]
        region = known[-1][2] if known else None
        if region is not None or outer:
            found.append((click["url"], region))
    return Counter(found)


TEMPORAL = (
    CLICKS
    + USERS
    + "CREATE STREAM j AS SELECT c.url, u.region FROM clicks c {kind} JOIN users u ON c.userid = u.userid;"
)


def test_temporal_join_meets_the_version_of_its_time(bench):
    dice = random.Random(SEED)
    for kind, outer in (("", False), ("LEFT", True)):
        bench.stop()
        bench.records.clear()
        bench.topics.clear()
        bench.folder = bench.folder / (kind or "inner")
        bench.compile(TEMPORAL.format(kind=kind))
        query = bench.start("j")
        users = [(dice.choice("abc"), dice.randrange(1000), dice.choice(["EU", "US", "APAC"])) for _ in range(40)]
        clicks = [
            {"event_time": dice.randrange(1000), "url": str(n), "userid": dice.choice("abcd")} for n in range(120)
        ]
        for at in range(0, 40, 20):
            versions = [
                ({"userid": key}, {"userid": key, "region": region, "at": time}, 0, "0")
                for key, time, region in users[at : at + 20]
            ]
            bench.topic("users").send_all(versions)  # a record by itself would be a task of its own
            bench.send("clicks", *clicks[3 * at : 3 * at + 60])
            bench.settle(query)
            if not at:
                bench.stop()
                query = bench.start("j")
        bench.advance(query, 5_000)
        got = Counter((row["url"], row["region"]) for row in bench.values)
        assert got == temporal_model(clicks, users, outer=outer)


def test_temporal_join_ends_versions_at_deletes(bench):
    bench.compile(
        CLICKS
        + """CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, PRIMARY KEY(userid)) WITH ('topic' = 'users', 'value.format' = 'json');
             CREATE STREAM j AS SELECT c.url, u.region FROM clicks c LEFT JOIN users u ON c.userid = u.userid;"""
    )
    query = bench.start("j")
    bench.send("users", {"userid": "a", "region": "EU"}, key="a", at=100)
    bench.send("users", None, key="a", at=200)
    bench.send("clicks", *({"event_time": t, "url": str(t), "userid": "a"} for t in (50, 150, 250)))
    bench.advance(query, 1_000)
    assert {row["url"]: row["region"] for row in bench.values} == {"50": None, "150": "EU", "250": None}


def test_immediate_temporal_join_does_not_wait(bench):
    bench.compile(
        TEMPORAL.format(kind="LEFT").replace(
            "ON c.userid = u.userid;", "ON c.userid = u.userid QUERY WITH ('temporal.join.mode' = 'immediate');"
        )
    )
    query = bench.start("j")
    bench.send("users", {"userid": "a", "region": "EU", "at": 1}, key="a")
    bench.settle(query)
    bench.send("clicks", {"event_time": 5, "url": "x", "userid": "a"}, {"event_time": 5, "url": "y", "userid": "b"})
    bench.settle(query)
    assert sorted((row["url"], row["region"]) for row in bench.values) == [("x", "EU"), ("y", None)]


def test_aggregate_over_a_temporal_join(bench):
    bench.compile(
        CLICKS
        + USERS
        + """CREATE CHANGELOG c AS SELECT u.region, COUNT(*) AS n FROM clicks c JOIN users u ON c.userid = u.userid
               GROUP BY u.region;"""
    )
    query = bench.start("c")
    bench.send("users", {"userid": "a", "region": "EU", "at": 1}, {"userid": "b", "region": "US", "at": 1}, key="a")
    bench.send("clicks", *({"event_time": 10 + n, "url": "x", "userid": "ab"[n % 2]} for n in range(5)))
    bench.advance(query, 1_000)
    assert {row["region"]: row["n"] for row in bench.folded().values()} == {"EU": 3, "US": 2}
