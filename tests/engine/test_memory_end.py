"""One job's memory is one job's problem: a real engine with a small heap, and a query that cannot fit in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ds_dagster.local.servers import down
from ds_dagster.runtime.engine import stop_engine
from tests.engine.kafka_jobs import House
from tests.engine.spark_jobs import deadline

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM numbers (n BIGINT) WITH ('store'='k', 'topic'='numbers', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM quiet AS SELECT n FROM numbers;
CREATE STREAM texts (k VARCHAR, t VARCHAR) WITH ('store'='k', 'topic'='texts', 'value.format'='json',
  'topic.partitions'=1, 'topic.replicas'=1, 'kafka.topic.max.message.bytes'=2000000);
CREATE CHANGELOG hog AS SELECT k, ARRAY_AGG(t) AS all_of_them FROM texts WITH ('max.records.per.batch'=1000000)
  GROUP BY k;
"""
ROWS, CHARACTERS = 1200, 1_000_000


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("small"), SQL)
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


def fill(house: House) -> None:
    """More than the heap holds, though little on the wire."""
    limits = {"message.max.bytes": 2_000_000, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": house.bootstrap, **limits})
    value = b'{"k":"one","t":"' + b"x" * CHARACTERS + b'"}'
    for _ in range(ROWS):
        producer.produce("texts", value)
        producer.poll(0.01)
    assert producer.flush(120) == 0


def test_the_job_that_needs_too_much_is_failed_and_the_others_go_on(small: House) -> None:
    assert small.run("quiet").state == "RUNNING"
    small.control.ensure(small.project, ["hog"], requested_by="test")
    with deadline() as over:
        while small.control.status("hog").state != "RUNNING":
            over()
    pid = small.control.engines()[0].pid
    fill(small)
    with deadline() as over:  # nobody starts the engine again but itself
        while small.control.status("hog").state != "FAILED":
            over()
    status = small.control.status("hog")
    assert status.condition == "ENGINE_OUT_OF_MEMORY", status
    assert "600m" in status.message
    assert "a batch of hog" in status.message
    with deadline() as over:
        while small.control.status("quiet").state != "RUNNING":
            over()
    assert small.control.engines()[0].pid == pid
    small.send("numbers", 0, 3)
    assert len(small.read("quiet", 3)) == 3
    assert small.control.status("hog").state == "FAILED"
