"""How long after a click it is counted in a view, at 100 clicks a second: ours in a real engine, the peer by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from benchmarks.house import STORES, House
from benchmarks.measure import Pairs, Result, Size, percentile, results, say
from benchmarks.throughput import users
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine

WAIT_SECONDS = 180.0
CLICKERS = 20
WARM_SECONDS = 40
"""Seconds of clicks that are not counted: a query runs for weeks, and Java's compilers take half a minute."""
SQL = """
CREATE STREAM clicks (event_time BIGINT, device_id VARCHAR, url VARCHAR, userid VARCHAR, ip VARCHAR)
  WITH ('topic'='live_clicks', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG users (registertime BIGINT, userid VARCHAR, regionid VARCHAR, gender VARCHAR, PRIMARY KEY(userid))
  WITH ('topic'='live_users', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE MATERIALIZED VIEW visits AS SELECT url, count(*) AS visits FROM clicks GROUP BY url;
CREATE STREAM user_clicks AS SELECT u.userid AS uid, u.regionid AS regionid, c.event_time AS event_time, c.url AS url
  FROM clicks c JOIN users u ON c.userid = u.userid;
CREATE MATERIALIZED VIEW user_visits AS SELECT url, count(*) AS visits FROM user_clicks GROUP BY url;
"""
Running = Callable[[], AbstractContextManager[Path]]


def latency(house: House, size: Size) -> list[Result]:
    """Straight, and through the temporal join; only the jobs of one path run at a time."""
    stamped = {"message.timestamp.type": "LogAppendTime"}
    house.topic("live_clicks", stamped)
    house.topic("live_users", {**stamped, "cleanup.policy": "compact"})
    house.fill("live_users", users(CLICKERS, 1))
    (house.root / "sql" / "live.sql").write_text(STORES + SQL, encoding="utf-8")
    project = load_project(house.root, settings=house.settings, strict=True)
    control = Control.open(house.settings)
    control.ensure_engine(WAIT_SECONDS)
    try:
        straight = _measure(house, size, "click to view", _Ours(house, control, project, ("visits",)), _straight)
        return straight + _measure(
            house, size, "click to view through temporal join",
            _Ours(house, control, project, ("user_clicks", "user_visits")), _through_join,
        )  # fmt: skip
    finally:
        stop_engine(house.settings)
        (house.root / "sql" / "live.sql").unlink()


class _Ours:
    """Jobs of the engine that run inside the block; gives the view's file and table."""

    def __init__(self, house: House, control: Control, project: LoadedProject, names: Sequence[str]) -> None:
        self.house, self.control, self.project, self.names = house, control, project, names

    def __enter__(self) -> tuple[Path, str]:
        asked = self.control.ensure(self.project, self.names, "ensure", "benchmark")
        self._wait({one.name: one.generation for one in asked}, "RUNNING")
        (path,) = (self.house.root / ".ds" / "views").glob(f"*.{self.names[-1]}.db")
        return path, self.names[-1]

    def __exit__(self, *_: object) -> None:
        self._wait({one.name: one.generation for one in self.control.stop(self.names, "benchmark")}, "STOPPED")

    def _wait(self, generations: dict[str, int], state: str) -> None:
        for status in self.control.wait(self.names, generations, WAIT_SECONDS):
            if status.state != state:
                raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")


def _measure(house: House, size: Size, name: str, ours: _Ours, peer: Callable[[House], Running]) -> list[Result]:
    p50, p99 = (Pairs(f"{name}, {share}", "ms", False) for share in ("p50", "p99"))
    by_hand = peer(house)
    for _ in range(size.runs):
        with ours as (path, table):
            mine = _clicked(house, size, path, table)
        with by_hand() as path:
            theirs = _clicked(house, size, path, "visits")
        for pair, share in ((p50, 0.5), (p99, 0.99)):
            a, b = percentile(mine, share), percentile(theirs, share)
            say(f"{pair.name}: ours {a:.0f} ms, peer {b:.0f} ms")
            pair.add(a, b)
    return results((p50, p99))


def _clicked(house: House, size: Size, view: Path, table: str) -> list[float]:
    """Latencies of one stretch of clicking."""
    command = [sys.executable, "-m", "benchmarks.clicker", "--bootstrap", house.bootstrap, "--topic", "live_clicks"]
    command += ["--view", str(view), "--table", table]
    command += ["--seconds", str(size.of(10, 4)), "--warm", str(size.of(WARM_SECONDS, 4))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    if found["missing"] or not found["millis"]:
        raise SystemExit(f"{found['missing']} clicks never appeared in {table}")
    return list(map(float, found["millis"]))


def _straight(house: House) -> Running:
    number = 0

    @contextmanager
    def running() -> Iterator[Path]:
        nonlocal number
        number += 1
        spark = peers.session(house.spark, partitions=1)
        path = house.root / "peer" / f"straight{number}.db"
        clicks = peers.read(spark, house.bootstrap, "live_clicks", start="latest")
        writer = peers.visits(clicks, peers.CLICK).writeStream.outputMode("update")
        query = _started(house, writer.foreachBatch(peers.into_sqlite(path)))
        with _running(query):
            yield path

    return running


def _through_join(house: House) -> Running:
    """Two queries with a topic between them, as ours; it joins what it has seen and waits for no time."""
    number = 0

    @contextmanager
    def running() -> Iterator[Path]:
        nonlocal number
        number += 1
        spark = peers.session(house.spark, rocksdb=True, partitions=1)
        path = house.root / "peer" / f"joined{number}.db"
        topic = house.topic(f"live_joined_{number}")
        clicks = peers.read(spark, house.bootstrap, "live_clicks", start="latest")
        joined = peers.joined(clicks, peers.read(spark, house.bootstrap, "live_users"))
        first = _started(house, peers.to_topic(joined, house.bootstrap, topic))
        plain = peers.session(house.spark, partitions=1)
        counted = peers.visits(peers.read(plain, house.bootstrap, topic), "url STRING")
        second = _started(house, counted.writeStream.outputMode("update").foreachBatch(peers.into_sqlite(path)))
        with _running(first), _running(second):
            yield path

    return running


def _started(house: House, writer: object) -> StreamingQuery:
    query: StreamingQuery = writer.option("checkpointLocation", house.checkpoint()).start()  # type: ignore[attr-defined]
    return query


@contextmanager
def _running(query: StreamingQuery) -> Iterator[None]:
    query.processAllAvailable()
    try:
        yield
    finally:
        query.stop()
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
