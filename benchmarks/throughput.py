"""Finite runs over filled topics: filter, aggregate, temporal join; rows per second and rows per CPU second."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from benchmarks.house import House, Ran, Record
from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster.demo.data import compact

FIRST_MILLIS = 1_700_000_000_000
USERS = 10_000
JOIN_USERS = 1_000
DEVICES = ("desktop", "mobile", "tablet")

CLICKS = """
CREATE STREAM clicks (event_time BIGINT, device_id VARCHAR, url VARCHAR, userid VARCHAR, ip VARCHAR)
  WITH ('topic'='{topic}', 'value.format'='json', 'timestamp'='event_time', 'topic.partitions'=2, 'topic.replicas'=1);
"""
JOIN = """
CREATE CHANGELOG users (registertime BIGINT, userid VARCHAR, regionid VARCHAR, gender VARCHAR, PRIMARY KEY(userid))
  WITH ('topic'='{users}', 'value.format'='json', 'timestamp'='registertime', 'topic.partitions'=2,
        'topic.replicas'=1);
CREATE STREAM {name} AS SELECT u.userid AS uid, u.regionid AS regionid, c.event_time AS event_time, c.url AS url
  FROM clicks c WITH ('max.records.per.batch'={rows}) JOIN users u WITH ('max.records.per.batch'={rows})
  ON c.userid = u.userid {mode};
"""
FILTER = """CREATE STREAM {name} AS SELECT event_time, device_id, url, userid FROM clicks {bound}
  WHERE device_id = 'desktop';"""
BOUND = "WITH ('max.records.per.batch'={rows})"
COUNT = """CREATE CHANGELOG {name} AS SELECT userid, count(*) AS clicks, sum(event_time) AS total,
  max(event_time) AS newest FROM clicks {bound} GROUP BY userid;"""
IMMEDIATE = "QUERY WITH ('temporal.join.mode'='immediate')"

Begin = Callable[[], StreamingQuery]


def clicks(number: int, users: int) -> Iterator[Record]:
    """Records of about 150 bytes."""
    chance = random.Random(7)
    for position in range(number):
        value = {
            "event_time": FIRST_MILLIS + position,
            "device_id": DEVICES[position % 3],
            "url": f"./shop/category/{position % 17}/page/{position % 97}",
            "userid": f"User_{chance.randrange(users)}",
            "ip": f"12.12.12.{position % 255}",
        }
        yield None, compact(value).encode()


def users(number: int, versions: int) -> Iterator[Record]:
    """Versions of users."""
    for version in range(versions):
        for user in range(number):
            name = f"User_{user}"
            value = {
                "registertime": FIRST_MILLIS - versions + version,
                "userid": name,
                "regionid": f"Region_{user % 9}",
                "gender": "OTHER",
            }
            yield compact({"userid": name}), compact(value).encode()


def interleaved(name: str, size: Size, ours: Callable[[], Ran], peer: Callable[[], Ran], rows: int) -> list[Result]:
    """Warm-ups of each side, then both in turns; the side that begins alternates."""
    speed = Pairs(f"{name}: throughput", "rows/s", True)
    cpu = Pairs(f"{name}: CPU", "rows per CPU second", True)
    for run in range(-size.warm_ups, size.runs):
        found: dict[str, Ran] = {}
        for side, step in (("ours", ours), ("peer", peer))[:: 1 if run % 2 == 0 else -1]:
            found[side] = ran = step()
            if ran.rows != rows:
                raise SystemExit(f"{name}, {side}: {ran.rows} of {rows} rows were read")
            say(f"{name} {side}: {ran.rows_per_second:,.0f} rows/s, {ran.rows_per_cpu_second:,.0f} per CPU second")
        if run >= 0:
            speed.add(found["ours"].rows_per_second, found["peer"].rows_per_second)
            cpu.add(found["ours"].rows_per_cpu_second, found["peer"].rows_per_cpu_second)
    return results((speed, cpu))


def expect(house: House, topic: str, least: int, most: int) -> None:
    """End the program when a topic does not hold what it must."""
    found = house.count(topic)
    if not least <= found <= most:
        raise SystemExit(f"{topic} holds {found} records, not {least} to {most}")


def filter_(house: House, size: Size) -> list[Result]:
    """Kafka → filter, project → Kafka."""
    rows = size.rows(1_200_000, 60_000)
    topic = house.topic("filter_in")
    house.fill(topic, clicks(rows, USERS))
    matching = rows // 3

    def ours() -> Ran:
        name = f"filter_ours_{house.number()}"
        project = house.project(
            CLICKS.format(topic=topic) + FILTER.format(name=name, bound=BOUND.format(rows=rows // 4))
        )
        ran = house.run_ours(house.prepared(project, name))
        expect(house, name, matching, matching)
        return ran

    def peer() -> Ran:
        name = house.topic(f"filter_peer_{house.number()}")
        spark = peers.session(house.spark)
        frame = peers.filtered(peers.read(spark, house.bootstrap, topic, batch_rows=rows // 4))
        ran = house.timed(lambda: _finite(house, peers.to_topic(frame, house.bootstrap, name)))
        expect(house, name, matching, matching)
        return ran

    return interleaved("filter", size, ours, peer, rows)


def aggregate(house: House, size: Size) -> list[Result]:
    """Kafka → GROUP BY → changelog in Kafka."""
    rows = size.rows(1_200_000, 60_000)
    topic = house.topic("aggregate_in")
    house.fill(topic, clicks(rows, USERS))
    users_seen = len({json.loads(value)["userid"] for _, value in clicks(rows, USERS)})
    least, most = users_seen, users_seen * 4

    def ours() -> Ran:
        name = f"count_ours_{house.number()}"
        project = house.project(
            CLICKS.format(topic=topic) + COUNT.format(name=name, bound=BOUND.format(rows=rows // 4))
        )
        ran = house.run_ours(house.prepared(project, name))
        expect(house, name, least, most)
        return ran

    def peer() -> Ran:
        name = house.topic(f"count_peer_{house.number()}", {"cleanup.policy": "compact"})
        spark = peers.session(house.spark)
        frame = peers.counted(peers.read(spark, house.bootstrap, topic, batch_rows=rows // 4))
        ran = house.timed(lambda: _finite(house, peers.to_topic(frame, house.bootstrap, name, "update")))
        expect(house, name, least, most)
        return ran

    return interleaved("aggregate", size, ours, peer, rows)


def temporal(house: House, size: Size) -> list[Result]:
    """Clicks ⋈ versions of users → Kafka; ours once as the peer (versions seen so far), once by event time."""
    rows, versions, known = size.rows(240_000, 6_000), size.of(5, 2), size.of(JOIN_USERS, 100)
    of_clicks, of_users = house.topic("temporal_in"), house.topic("temporal_users", {"cleanup.policy": "compact"})
    read = rows + house.fill(of_users, users(known, versions))
    house.fill(of_clicks, clicks(rows, known))

    def ours(mode: str, least: int) -> Ran:
        name = f"join_ours_{house.number()}"
        statements = CLICKS.format(topic=of_clicks) + JOIN.format(users=of_users, name=name, mode=mode, rows=rows // 2)
        ran = house.run_ours(house.prepared(house.project(statements), name))
        expect(house, name, least, rows)
        return ran

    def peer() -> Ran:
        name = house.topic(f"join_peer_{house.number()}")
        spark = peers.session(house.spark, rocksdb=True)
        sides = [peers.read(spark, house.bootstrap, topic, batch_rows=rows // 2) for topic in (of_clicks, of_users)]
        frame = peers.joined(sides[0], sides[1])
        ran = house.timed(lambda: _finite(house, peers.to_topic(frame, house.bootstrap, name)))
        expect(house, name, rows, rows)
        return ran

    found = interleaved("temporal join, as seen", size, lambda: ours(IMMEDIATE, rows), peer, read)
    return found + interleaved(
        "temporal join, event time", size, lambda: ours("", 0 if size.quick else rows * 2 // 5), peer, read
    )


def _finite(house: House, writer: object) -> StreamingQuery:
    return writer.option("checkpointLocation", house.checkpoint()).trigger(availableNow=True).start()  # type: ignore[attr-defined, no-any-return]
