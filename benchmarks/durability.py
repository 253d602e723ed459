"""What it costs to force every batch's plan, state and commit to disk, and to mark batches without rows in Kafka."""

from __future__ import annotations

from benchmarks.house import House
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.throughput import BOUND, CLICKS, USERS, clicks
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.session import LOCAL_FILE_SYSTEMS

QUERIES = """
  CREATE STREAM desktop_{n} AS SELECT event_time, url, userid FROM clicks {bound} WHERE device_id = 'desktop';
  CREATE CHANGELOG counted_{n} AS SELECT userid, COUNT(*) AS clicks, MAX(event_time) AS newest
    FROM clicks {bound} GROUP BY userid;
  CREATE STREAM marked_{n} AS SELECT url FROM clicks {bound} WHERE device_id = 'none';
  CREATE STREAM unmarked_{n} WITH ('delivery' = 'at_least_once') AS SELECT url FROM clicks {bound}
    WHERE device_id = 'none';
"""


def forced(house: House, size: Size) -> list[Result]:
    """Ours forces its checkpoint to disk, the peer is the same query without; of batches without rows, ours commits a
    marker with each."""
    batches = 20 if size.quick else 200
    rows = batches * 250
    topic = house.topic("durability_in")
    house.fill(topic, clicks(rows, USERS))
    found = [
        Pairs("filter, forced against not: a batch", "ms", False),
        Pairs("aggregate, forced against not: a batch", "ms", False),
        Pairs("no rows, marker against none: a batch", "ms", False),
    ]
    for run in range(-size.warm_ups, size.runs):
        number = house.number()
        project = house.project(CLICKS.format(topic=topic) + QUERIES.format(n=number, bound=BOUND.format(rows=250)))
        sides = [
            (("desktop", True), ("desktop", False)),
            (("counted", True), ("counted", False)),
            (("marked", False), ("unmarked", False)),
        ]
        for pairs, both in zip(found, sides, strict=True):
            millis = {}
            for name, durable in both[:: 1 if run % 2 == 0 else -1]:
                prepared = house.prepared(project, f"{name}_{number}")
                ran = house.run_ours(_on_disk(prepared, durable))
                millis[name, durable] = 1000 * ran.seconds / batches
                say(f"durability {name} {'forced' if durable else 'not'}: {millis[name, durable]:.1f} ms a batch")
            if run >= 0:
                pairs.add(millis[both[0]], millis[both[1]])
    return results(found)


def _on_disk(prepared: PreparedQuery, durable: bool) -> PreparedQuery:
    """Its session has a file system of its own, which Hadoop would share otherwise."""
    prepared.session.conf.set("fs.file.impl", LOCAL_FILE_SYSTEMS[durable])
    prepared.session.conf.set("fs.file.impl.disable.cache", "true")
    return prepared
