"""MATCH_RECOGNIZE on Spark: what bounds its state, late rows counted, definitions compiled by Spark."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Project, Sink

EVENTS = """
CREATE STREAM events (t BIGINT, k VARCHAR, x VARCHAR, v INTEGER)
  WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 't');
"""
PAIRS = """CREATE STREAM m AS SELECT k, a, b FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
  MEASURES a.v AS a, b.v AS b PATTERN (a other*? b) DEFINE a AS x = 'a', b AS x = 'b' AND v > a.v) AS m;"""


def with_ttl(node: Node, millis: int) -> Node:
    if isinstance(node, Match):
        return replace(node, ttl_millis=millis)
    assert isinstance(node, Project | Sink)
    return replace(node, input=with_ttl(node.input, millis))


def forgetting(bench, millis):
    query = bench.project.queries["m"]
    (part,) = query.parts
    forgets = replace(query, parts=(replace(part, root=with_ttl(part.root, millis)),))
    bench.project = replace(bench.project, queries=MappingProxyType({"m": forgets}))


def pairs(bench):
    return [(row["k"], row["a"], row["b"]) for row in bench.values]


def state_rows(query):
    return query.lastProgress["stateOperators"][0]["numRowsTotal"]


def event(t, x, v, k="p"):
    return {"t": t, "k": k, "x": x, "v": v}


def test_a_silence_as_long_as_the_time_to_live_ends_a_search(bench):
    bench.compile(EVENTS + PAIRS)
    forgetting(bench, 5000)
    query = bench.start("m")
    bench.send("events", event(1000, "a", 1), event(5999, "c", 2), event(10998, "b", 3))  # never five seconds apart
    bench.send("events", event(20000, "a", 4), event(25000, "b", 5), event(26000, "a", 6), event(27000, "b", 7))
    bench.settle(query)
    bench.advance(query, 100_000)
    assert pairs(bench) == [("p", 1, 3), ("p", 6, 7)]


def test_the_silence_counts_wherever_batches_and_restarts_fall(bench):
    bench.compile(EVENTS + PAIRS)
    forgetting(bench, 5000)
    query = bench.start("m")
    for at, row in (
        (1500, event(1000, "a", 1)),
        (6200, event(5999, "c", 2)),
        (11_000, event(10998, "b", 3)),
        (20_500, event(20000, "a", 4)),
        (25_500, event(25000, "b", 5)),
        (26_500, event(26000, "a", 6)),
        (27_500, event(27000, "b", 7)),
    ):
        bench.send("events", row)
        bench.settle(query)
        bench.advance(query, at)
        bench.stop()
        query = bench.start("m")
    bench.settle(query)
    assert pairs(bench) == [("p", 1, 3), ("p", 6, 7)]


def test_state_goes_when_nothing_waits(bench):
    bench.compile(EVENTS + PAIRS.replace("b) DEFINE", "b) WITHIN 10 SECONDS DEFINE"))
    query = bench.start("m")
    bench.send("events", event(1000, "a", 1), event(2000, "c", 2), event(1500, "c", 3, "q"))
    bench.settle(query)
    bench.advance(query, 5000)
    assert state_rows(query) > 0
    bench.advance(query, 12_000)
    assert state_rows(query) == 0
    assert pairs(bench) == []


def test_a_late_row_is_counted(bench):
    bench.compile(EVENTS + PAIRS)
    query = bench.start("m")
    bench.send("events", event(1000, "a", 1))
    bench.settle(query)
    bench.advance(query, 50_000)
    bench.send("events", event(2000, "b", 2), event(60_000, "b", 3))
    bench.settle(query)
    bench.advance(query, 70_000)
    dropped = [op["numRowsDroppedByWatermark"] for p in query.recentProgress for op in p["stateOperators"]]
    assert sum(dropped) == 1
    assert pairs(bench) == [("p", 1, 3)]
