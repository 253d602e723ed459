"""A query in real-time mode on a cluster: no row is lost when executors and the driver are killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.cluster.standalone import Standalone
from tests.e2e.cluster.test_spark_cluster import SETTINGS
from tests.e2e.feeding import House, until

pytestmark = pytest.mark.slow

SQL = """
USE DATABASE clickstream_db;
USE STORE prod_kafka;
CREATE STREAM events (id BIGINT)
  WITH ('topic'='events', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM copied WITH ('delivery' = 'at_least_once', 'latency.mode' = 'realtime',
  'latency.checkpoint.millis' = 5000) AS SELECT id FROM events;
"""
WORKERS = 3
"""Of a core each: a slot for each partition, and one that is kept for batches."""


def test_rows_pass_while_executors_and_the_driver_are_killed(tmp_path: Path) -> None:
    for name in ("spark", "house"):
        (tmp_path / name).mkdir()
    with closing(Standalone(tmp_path / "spark", WORKERS)) as cluster:
        settings = SETTINGS.format(master=cluster.url)
        house = House(tmp_path / "house", {"fast.sql": SQL}, settings=settings, servers=("kafka", "postgres"))
        with closing(house):
            house.start("copied")
            until_copied(house, 0)
            for kill in (1, 2):
                cluster.kill_executor()
                until_copied(house, kill)
            house.kill_engine()
            house.recover()
            until_copied(house, 3)
            house.stop("copied")


def until_copied(house: House, turn: int, rows: int = 20) -> None:
    """Send rows and wait for them, and for those of all turns before."""
    house.send("events", [{"id": turn * rows + number} for number in range(rows)])
    wanted = set(range((turn + 1) * rows))
    until(lambda: {(record.value or {})["id"] for record in house.records("copied")} == wanted, "all rows are there")
