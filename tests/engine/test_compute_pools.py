"""Two engines of one project on real servers while data flows: one is killed, queries move between them, and nothing is
lost, nothing is doubled."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from ds_dagster.local.servers import down
from ds_dagster.project.load import load_project
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places
from tests.command_line import called
from tests.e2e.feeding import WAIT, Stream, Tail, is_dead, until
from tests.engine.kafka_jobs import House

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
HEAVY = "QUERY WITH ('compute_pool' = 'heavy')"
POOL = "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 1, 'compute_pool.memory' = '600m');"
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM numbers (n BIGINT) WITH ('store'='k', 'topic'='numbers', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM near AS SELECT n FROM numbers {near};
CREATE MATERIALIZED VIEW near_counts AS SELECT n % 10 AS k, COUNT(*) AS c FROM numbers GROUP BY n % 10 {near};
CREATE STREAM far AS SELECT n FROM numbers {far};
CREATE MATERIALIZED VIEW far_counts AS SELECT n % 10 AS k, COUNT(*) AS c FROM far GROUP BY n % 10 {far};
{pool}
"""
NEAR, FAR = ("near", "near_counts"), ("far", "far_counts")


class Pools(House):
    """The project of this file: a copy and a count in each of two engines."""

    def write(self, near: str, far: str, pool: str) -> None:
        """Change the statements' pools."""
        (self.root / "sql" / "all.sql").write_text(SQL.format(near=near, far=far, pool=pool))
        self.project = load_project(self.root, settings=self.settings, strict=True)

    def places(self, pool: str) -> Places:
        return Places(self.settings.state, pool)

    def python(self, pool: str) -> int:
        """Process id of an engine's Python, 0 while nobody says."""
        return int(str(locks.holder(self.places(pool).python_lock).get("pid", 0)))

    def jvm(self, pool: str) -> int:
        found = subprocess.run(
            ["pgrep", "-P", str(self.python(pool)), "java"], capture_output=True, text=True, check=True
        )
        return int(found.stdout.split()[0])

    def kill(self, pool: str) -> None:
        """kill -9 of an engine's Python and JVM."""
        processes = (self.python(pool), self.jvm(pool))
        for process in processes:
            os.kill(process, signal.SIGKILL)
        until(lambda: all(map(is_dead, processes)), "the engine is dead", 60)

    def move(self, *names: str) -> None:
        """Apply the statements of today to running queries."""
        asked = self.control.ensure(self.project, names, "restart", "test")
        self.control.ensure_engines(names, WAIT)
        found = self.control.wait(names, {one.name: one.generation for one in asked}, WAIT)
        bad = [(s.name, s.state, s.condition, s.message, s.detail) for s in found if s.state != "RUNNING"]
        assert not bad, bad

    def where(self) -> dict[str, str]:
        return {status.name: status.pool for status in self.control.statuses()}

    def incarnations(self, *names: str) -> list[str]:
        return [status.incarnation for status in self.control.statuses(names)]

    def view(self, name: str) -> dict[int, int]:
        rows = called(self.root, "query", f"SELECT k, c FROM {name}", "--json").json["rows"]
        return {row["k"]: row["c"] for row in rows}

    def close(self) -> None:
        for pool in ("", "heavy"):
            stop_engine(replace(self.settings, pool=pool), 60, kill=True)
        down(self.root / ".ds")

    def create(self, topic: str) -> None:
        admin = self.admin()
        (created,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
        created.result(60)


class Numbers:
    """Sends whole numbers in order, and reads what the copies have of them."""

    def __init__(self, house: Pools) -> None:
        self.house, self.sent = house, 0

    def send(self, _: int = 0) -> None:
        self.house.send("numbers", self.sent, self.sent + 20)
        self.sent += 20

    def follow(self) -> None:
        self.copies = {name: Tail(self.house.bootstrap, name) for name in ("near", "far")}

    def goes_on(self, name: str, what: str) -> None:
        """More than a batch that was under way arrives."""
        before = len(self.copies[name].records())
        until(lambda: len(self.copies[name].records()) > before + 60, what)

    def check(self) -> None:
        """Nothing is missing, nothing is there twice."""
        wanted = list(range(self.sent))
        for name, copy in self.copies.items():
            until(lambda: len(copy.records()) >= self.sent, f"{name} has everything")  # noqa: B023
            assert sorted(record.value["n"] for record in copy.records() if record.value) == wanted, name
            copy.close()
        counts = dict(Counter(n % 10 for n in wanted))
        for view in ("near_counts", "far_counts"):
            until(lambda: self.house.view(view) == counts, f"{view} equals the model")  # noqa: B023


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Pools]:
    made = Pools(tmp_path, SQL.format(near="", far=HEAVY, pool=POOL))
    yield made
    made.close()


def lose_one(house: Pools, numbers: Numbers) -> None:
    before, own = house.incarnations(*NEAR), house.python("")
    house.kill("heavy")
    states = {status.name: status.state for status in house.control.statuses()}
    assert states == {**dict.fromkeys(NEAR, "RUNNING"), **dict.fromkeys(FAR, "UNKNOWN")}
    numbers.goes_on("near", "the other engine's query goes on")
    shown = called(house.root, "ps", "--json").json
    engines = {engine["name"]: engine["state"] for engine in shown["engines"]}
    assert engines == {"default": "RUNNING", "heavy": "GONE"}
    house.control.ensure_engines(FAR, WAIT)
    until(lambda: {s.state for s in house.control.statuses(FAR)} == {"RUNNING"}, "it resumes its queries")
    assert house.incarnations(*NEAR) == before
    assert house.python("") == own


def change_places(house: Pools) -> None:
    house.write(near=HEAVY, far="", pool=POOL)
    house.move(*NEAR, *FAR)
    assert house.where() == {**dict.fromkeys(NEAR, "heavy"), **dict.fromkeys(FAR, "")}


def remove_pool(house: Pools, numbers: Numbers) -> None:
    """Its engine ends when nothing is left in it."""
    own, heavy = house.python(""), house.python("heavy")
    house.write(near="", far="", pool="")
    house.move(*NEAR)
    assert set(house.where().values()) == {""}
    numbers.goes_on("near", "it goes on in the other engine")
    until(lambda: is_dead(heavy), "the engine of the pool has ended", 120)
    assert not locks.is_held(house.places("heavy").jvm_lock)
    assert house.python("") == own


def test_one_engine_is_killed_and_queries_move(house: Pools) -> None:
    numbers = Numbers(house)
    house.create("numbers")
    numbers.send()
    house.move(*NEAR, *FAR)
    assert house.where() == {**dict.fromkeys(NEAR, ""), **dict.fromkeys(FAR, "heavy")}
    assert 0 < house.python("") != house.python("heavy") > 0
    numbers.follow()
    with Stream(numbers.send, pause=0.2):
        lose_one(house, numbers)
        change_places(house)
        remove_pool(house, numbers)
    numbers.check()
    assert [status.checkpoint_version for status in house.control.statuses()] == [1, 1, 1, 1]
