"""An application with three sinks against the same queries as three jobs: one read and one decoding against three."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.house import House, Ran
from benchmarks.measure import Pairs, Result, Size, cpu_seconds, results, say
from benchmarks.throughput import BOUND, CLICKS, USERS, clicks, expect
from ds_dagster.spark.queries.query import close, start

QUERIES = """
  CREATE STREAM desktop_{n} AS SELECT event_time, url, userid FROM clicks {bound} WHERE device_id = 'desktop';
  CREATE STREAM mobile_{n} AS SELECT event_time, url, userid FROM clicks {bound} WHERE device_id = 'mobile';
  CREATE CHANGELOG counted_{n} AS SELECT userid, COUNT(*) AS clicks, MAX(event_time) AS newest
    FROM clicks {bound} GROUP BY userid;
"""
SINKS = ("desktop", "mobile", "counted")


def three_sinks(house: House, size: Size) -> list[Result]:
    """Ours is the application, the peer the same three queries started together; rows are those of the topic."""
    rows = size.rows(1_200_000, 60_000)
    topic = house.topic("application_in")
    house.fill(topic, clicks(rows, USERS))
    speed = Pairs("application of 3 sinks against 3 jobs: throughput", "rows/s", True)
    cpu = Pairs("application of 3 sinks against 3 jobs: CPU", "rows per CPU second", True)
    for run in range(-size.warm_ups, size.runs):
        found: dict[str, Ran] = {}
        for side in ("ours", "peer")[:: 1 if run % 2 == 0 else -1]:
            found[side] = ran = _run(house, topic, rows, as_application=side == "ours")
            say(f"application {side}: {ran.rows_per_second:,.0f} rows/s, {ran.rows_per_cpu_second:,.0f} per CPU second")
        if run >= 0:
            speed.add(found["ours"].rows_per_second, found["peer"].rows_per_second)
            cpu.add(found["ours"].rows_per_cpu_second, found["peer"].rows_per_cpu_second)
    return results((speed, cpu))


def _run(house: House, topic: str, rows: int, *, as_application: bool) -> Ran:
    number = house.number()
    text = QUERIES.format(n=number, bound=BOUND.format(rows=rows // 4))
    name = f"together_{number}"
    names = [name] if as_application else [f"{sink}_{number}" for sink in SINKS]
    whole = f"BEGIN APPLICATION {name} {text} END APPLICATION;" if as_application else text
    project = house.project(CLICKS.format(topic=topic) + whole)
    prepared = [house.prepared(project, one) for one in names]
    try:
        used, begun = cpu_seconds(house.driver), time.perf_counter()
        queries = [start(one, house.checkpoint(), "available_now") for one in prepared]
        for query in queries:
            query.awaitTermination()
        seconds, used = time.perf_counter() - begun, cpu_seconds(house.driver) - used
    finally:
        for one in prepared:
            close(one)
    _check(house, queries, number, rows)
    return Ran(seconds, used, rows)


def _check(house: House, queries: list[StreamingQuery], number: int, rows: int) -> None:
    for query in queries:
        problem = query.exception()
        if problem is not None:
            raise SystemExit(str(problem))
        read = sum(batch["numInputRows"] for batch in query.recentProgress)
        if read != rows:
            raise SystemExit(f"{read} of {rows} rows were read")
    for sink in ("desktop", "mobile"):
        expect(house, f"{sink}_{number}", rows // 3, rows // 3)
    expect(house, f"counted_{number}", min(USERS, rows // 10), USERS * 4)
