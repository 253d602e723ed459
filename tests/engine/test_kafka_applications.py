"""An application in the real engine over a real broker: one read of its source, every sink once over kill -9."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ds_dagster.local.servers import down
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from tests.command_line import called
from tests.engine.kafka_jobs import House
from tests.engine.spark_jobs import WAIT, deadline

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
KEYS = 7
CHUNK = 500
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM origin (n BIGINT, k VARCHAR) WITH ('store'='k', 'topic'='origin', 'value.format'='json',
  'topic.partitions'=2, 'topic.replicas'=1);
BEGIN APPLICATION numbers
  CREATE VIRTUAL STREAM valid AS SELECT n, k
    FROM origin WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG') WHERE n >= 0;
  CREATE STREAM copied AS SELECT n FROM valid;
  CREATE STREAM doubled AS SELECT n * 2 AS n
    FROM origin WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG');
  CREATE CHANGELOG counted AS SELECT k, COUNT(*) AS n FROM valid GROUP BY k;
  CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(n) AS n FROM valid GROUP BY k;
END APPLICATION;
"""


class Numbers(House):
    """The project, and what was sent so far."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, SQL)
        self.sent = 0

    def more(self, count: int = CHUNK) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for n in range(self.sent, self.sent + count):
            producer.produce("origin", json.dumps({"n": n, "k": f"k{n % KEYS}"}).encode(), partition=n % 2)
        assert producer.flush(30) == 0
        self.sent += count

    def values(self, topic: str) -> list[Any]:
        from ds_dagster.stores.kafka.admin import KafkaAdmin

        admin = KafkaAdmin("k", {"bootstrap.servers": self.bootstrap})
        try:
            found = admin.records(topic, from_beginning=True, limit=1_000_000, stopped=lambda: False)
            return [json.loads(record.value or b"null") for record in found]
        finally:
            admin.close()

    def batches(self) -> tuple[int, int]:
        """The last batch that was begun and the last that was finished, by the checkpoint."""
        (root,) = (self.settings.state / "checkpoints").glob("*/numbers/v*")
        found = [
            [int(p.name) for p in (root / kind).glob("*") if p.name.isdecimal()] for kind in ("offsets", "commits")
        ]
        begun, finished = (max(numbers, default=-1) for numbers in found)
        return begun, finished

    def kill_engine(self) -> None:
        """kill -9, and what the sensor's ticks do until there is another one: the old JVM may outlive its Python."""
        places = self.control.places
        os.kill(int(str(locks.holder(places.python_lock)["pid"])), signal.SIGKILL)
        with deadline() as over:
            while any(map(locks.is_held, (places.python_lock, places.jvm_lock))):
                over()
        with deadline() as over:
            while self.control.ensure_engine(WAIT).state != "RUNNING":
                over()

    def until_read(self) -> None:
        """Everything sent so far stands in the last sink."""
        with deadline() as over:
            while sum(self.sums().values()) != sum(range(self.sent)):
                over()

    def sums(self) -> dict[str, int]:
        done = called(self.root, "query", "--json", "SELECT k, n FROM sums")
        return {row["k"]: row["n"] for row in done.rows} if done.code == 0 else {}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Numbers]:
    made = Numbers(tmp_path_factory.mktemp("project"))
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


def check(house: Numbers) -> None:
    numbers = range(house.sent)
    assert Counter(value["n"] for value in house.values("copied")) == Counter(numbers)
    assert Counter(value["n"] for value in house.values("doubled")) == Counter(2 * n for n in numbers)
    newest = {value["k"]: value["n"] for value in house.values("counted")}
    assert newest == Counter(f"k{n % KEYS}" for n in numbers)
    assert house.sums() == {f"k{key}": sum(range(key, house.sent, KEYS)) for key in range(KEYS)}


def test_one_job_reads_its_source_once_and_fills_everything(house: Numbers) -> None:
    assert house.run("numbers").state == "RUNNING"
    house.more()
    house.until_read()
    check(house)
    told = house.ps("numbers")
    assert told["rows"] == house.sent, "each record is read once for all sinks"
    assert told["rows_written"] >= 2 * house.sent + 2 * KEYS, "two copies, the counts and the sums"
    assert [name.rpartition(".")[2] for name in told["relations"]] == ["copied", "doubled", "counted", "sums"]


def test_records_that_cannot_be_read_are_kept_once(house: Numbers) -> None:
    producer = Producer({"bootstrap.servers": house.bootstrap})
    for number in range(3):
        producer.produce("origin", f"no JSON {number}".encode(), partition=number % 2)
    assert producer.flush(30) == 0
    house.more()
    house.until_read()
    kept = house.values("origin_bad_records")
    assert sorted(base64.b64decode(row["value"]) for row in kept) == [b"no JSON 0", b"no JSON 1", b"no JSON 2"]
    assert {row["query"] for row in kept} == {"numbers"}
    check(house)


def test_the_engine_is_killed_and_no_sink_loses_or_doubles(house: Numbers) -> None:
    for _ in range(3):
        before = house.batches()[1]
        house.more()
        with deadline() as over:
            while house.batches()[0] <= before:
                over()
        house.kill_engine()
        with deadline() as over:
            while house.batches()[1] <= before:
                over()
    house.more()
    house.until_read()
    check(house)
