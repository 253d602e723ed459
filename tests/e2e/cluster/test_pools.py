"""Engines of compute pools on one cluster: each has executors of its own, the loss of one touches no query of another,
and a query that moves goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places
from tests.command_line import called
from tests.e2e.cluster.standalone import Standalone
from tests.e2e.cluster.test_spark_cluster import SETTINGS
from tests.e2e.feeding import House, until

pytestmark = pytest.mark.slow

HEAVY = "QUERY WITH ('compute_pool' = 'heavy')"
SQL = """
USE DATABASE clickstream_db;
USE STORE prod_kafka;
CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 1);
CREATE STREAM events (id BIGINT)
  WITH ('topic'='events', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM copied AS SELECT id FROM events;
CREATE CHANGELOG counted AS SELECT id % 3 AS part, COUNT(*) AS n FROM events GROUP BY id % 3 {0};
"""
PART = 20


class Cluster(House):
    """A project with two engines on a standalone master."""

    sent = 0

    def feed(self) -> None:
        """Some rows, and both results with all rows so far, each once."""
        self.send("events", [{"id": self.sent + number} for number in range(PART)])
        self.sent += PART
        until(lambda: self.ids() == list(range(self.sent)), "the copy has every row once")
        counts = {part: len(range(part, self.sent, 3)) for part in range(3)}
        until(lambda: self.counts() == counts, "the counts have every row once")

    def ids(self) -> Sequence[int]:
        return sorted((record.value or {})["id"] for record in self.records("copied"))

    def counts(self) -> dict[int, int]:
        return {row["part"]: row["n"] for record in self.records("counted") if (row := record.value)}

    def pids(self) -> tuple[object, object]:
        """Processes of the project's own engine and of the pool's."""
        own, pool = (Places(self.state, pool).python_lock for pool in ("", "heavy"))
        return (locks.holder(own) or {}).get("pid"), (locks.holder(pool) or {}).get("pid")

    def close(self) -> None:
        """End both engines, and everything else."""
        called(self.root, "engine", "stop", "--all")
        super().close()

    def apply(self, *options: str) -> None:
        applied = called(self.root, "apply", "copied", "counted", *options)
        assert applied.code == 0, applied.err


def test_engines_of_pools(tmp_path: Path) -> None:
    for name in ("spark", "house"):
        (tmp_path / name).mkdir()
    with closing(Standalone(tmp_path / "spark", workers=3)) as cluster:
        settings = SETTINGS.format(master=cluster.url) + '"spark.cores.max" = "2"\n'
        sql = {"pools.sql": SQL.format(HEAVY)}
        with closing(Cluster(tmp_path / "house", sql, settings=settings, servers=("kafka", "postgres"))) as house:
            house.apply()
            house.feed()
            assert len(cluster.executors()) == 3, "two of the project's own engine, one of the pool"
            own, heavy = house.pids()
            assert own and heavy and own != heavy
            os.kill(int(str(heavy)), signal.SIGKILL)
            house.send("events", [{"id": house.sent + number} for number in range(PART)])
            house.sent += PART
            until(lambda: house.ids() == list(range(house.sent)), "queries of the other engine go on")
            assert called(house.root, "engine", "start", "--pool", "heavy").code == 0
            house.feed()
            assert house.pids()[0] == own, "it was not touched"
            (house.root / "sql" / "pools.sql").write_text(SQL.format(""))
            house.apply("--allow", "restart")
            house.feed()
            assert house.control.status("counted").checkpoint_version == 1
