"""The source ``ds-kafka-records``: the rows of Spark's own Kafka source, which is read beside it, and what was sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

pytestmark = [pytest.mark.spark, pytest.mark.servers]
OURS, SPARKS, SKIPPING = "ds-kafka-records", "kafka", "ds-kafka-skipping"
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
STAMP = 1_700_000_000_123
LOST = r"KAFKA_DATA_LOSS|data may have been lost|Cannot read offset"


def read(lab: Any, broker: Any, source: str, topic: str, **extra: str) -> DataFrame:
    return lab.spark.readStream.format(source).name("records").options(**broker.reading(topic, **extra)).load()


def offsets(rows: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    return sorted((row[3], row[4]) for row in rows)


def send_transactions(broker: Any, topic: str, seed: int, rounds: int = 40) -> list[tuple[Any, ...]]:
    """Committed and aborted transactions in two partitions, null keys and values, headers; the committed records."""
    chance = random.Random(seed)
    producer = broker.producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    committed: list[tuple[Any, ...]] = []
    for number in range(rounds):
        producer.begin_transaction()
        sent = []
        for place in range(chance.randrange(30)):
            key = chance.choice([None, b"", f"k{place}".encode()])
            value = chance.choice([None, b"", f"{number}/{place}".encode() * chance.randrange(1, 9)])
            headers = [("h", chance.choice([None, b"v"]))] * chance.randrange(3)
            partition = chance.randrange(2)
            producer.produce(topic, value, key, partition, timestamp=STAMP + number, headers=headers or None)
            sent.append((key, value, partition, STAMP + number, headers))
        if chance.random() < 0.4:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed.extend(sent)
    return committed


def as_sent(row: tuple[Any, ...]) -> tuple[Any, ...]:
    key, value, _, partition, _, timestamp, _, *headers = row
    pairs = [(header.key, header.value) for header in headers[0] or ()] if headers else []
    binary = (None if part is None else bytes(part) for part in (key, value))
    millis = round(timestamp.timestamp() * 1000)
    return (*binary, partition, millis, [(name, None if text is None else bytes(text)) for name, text in pairs])


@pytest.mark.parametrize("headers", ["false", "true"])
@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": "7"}, {"maxRecordsPerTask": "5"}], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_rows_are_those_of_sparks_source(
    lab: Any, broker: Any, headers: str, limits: dict[str, str], seed: int
) -> None:
    """Also in small batches, and in tasks that read a partition side by side."""
    topic = broker.topic(2)
    committed = send_transactions(broker, topic, seed)
    extra = {"includeHeaders": headers, **limits}
    rows = {}
    for source in (OURS, SPARKS):
        frame = read(lab, broker, source, topic, **extra)
        assert frame.columns == [*COLUMNS, *(["headers"] if headers == "true" else [])]
        rows[source] = lab.step(lab.start(frame, source, availableNow=True))
    assert rows[OURS] == rows[SPARKS]
    with_headers = [sent if headers == "true" else (*sent[:4], []) for sent in committed]
    assert sorted(map(as_sent, rows[OURS]), key=repr) == sorted(with_headers, key=repr)


def test_tasks_are_small_while_sizes_are_unknown_and_where_records_are_large(
    lab: Any, broker: Any, tmp_path: Path
) -> None:
    """Sixteen megabytes of records at most; two partitions take turns."""
    topic, tasks, places = broker.topic(2), [], []

    def count(batch: DataFrame, _: int) -> None:
        tasks.append(batch.rdd.getNumPartitions())
        rows = batch.select("partition", "offset", sf.spark_partition_id().alias("task")).collect()
        places.append([(row.task, row.partition, row.offset) for row in rows])

    frame = read(lab, broker, OURS, topic, maxRecordsPerTask="30000")
    writer = frame.writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path))

    def batch(records: int, size: int) -> None:
        producer = broker.producer()
        for number in range(records):
            producer.produce(topic, b"x" * size, partition=number % 2)
            producer.poll(0)
            if number % 1_000 == 0:
                producer.flush(30)
        producer.flush(30)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    batch(50_000, 10)
    batch(50_000, 10)
    batch(200, 200_000)
    batch(400, 200_000)
    assert tasks == [4, 2, 2, 4]
    partition_of = {task: partition for task, partition, _ in places[0]}
    assert partition_of[0] == partition_of[2] != partition_of[1] == partition_of[3]
    for read_rows in places:
        positions = [(partition, offset) for _, partition, offset in read_rows]
        assert len(positions) == len(set(positions))
    assert sum(map(len, places)) == 100_600


def test_records_that_come_while_the_query_runs(lab: Any, broker: Any) -> None:
    topic = broker.topic(2)
    query = lab.start(read(lab, broker, OURS, topic))
    for number in range(30):
        broker.send(topic, [(number % 2, f"{number}")] * (1 + number % 3))
        assert [bytes(row[1]) for row in lab.step(query)] == [f"{number}".encode()] * (1 + number % 3)


def test_a_query_goes_on_from_the_checkpoint_of_sparks_source(lab: Any, broker: Any) -> None:
    """A job that ran before this source did: its checkpoint has Spark's offsets."""
    topic = broker.topic(1)
    broker.send(topic, [(0, "before")])
    for source, values in ((SPARKS, [b"before"]), (OURS, [b"after"]), (SPARKS, [])):
        rows = lab.step(lab.start(read(lab, broker, source, topic), availableNow=True))
        assert [bytes(row[1]) for row in rows] == values
        if source == SPARKS:
            broker.send(topic, [(0, "after")] if values else [])


def delete_before(broker: Any, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for answer in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        answer.result(30)


def recreate(broker: Any, topic: str, eventually: Any) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=30).topics)
    broker.topic(1, topic)


@pytest.fixture
def cut(lab: Any, broker: Any) -> Iterator[str]:
    """A topic of 20 records, 5 of which the query ``query`` has read, and the first 12 of which are gone since."""
    topic = broker.topic(1)
    broker.send(topic, [(0, "x")] * 5)
    lab.step(lab.start(read(lab, broker, OURS, topic), availableNow=True))
    broker.send(topic, [(0, "x")] * 15)
    delete_before(broker, topic, 12)
    yield topic


def test_lost_records_end_a_query(lab: Any, broker: Any, cut: str) -> None:
    query = lab.start(read(lab, broker, OURS, cut), availableNow=True)
    with pytest.raises(StreamingQueryException, match=LOST):
        query.awaitTermination()
    assert offsets(lab.take()) == []


@pytest.mark.parametrize("source", [OURS, SPARKS, SKIPPING])
def test_allowed_losses_are_passed_over(lab: Any, broker: Any, cut: str, source: str) -> None:
    query = lab.start(read(lab, broker, source, cut, failOnDataLoss="false"), availableNow=True)
    assert offsets(lab.step(query)) == [(0, offset) for offset in range(12, 20)]


def test_records_lost_within_a_fetch_that_the_consumer_has_kept(lab: Any, broker: Any) -> None:
    """The first batch leaves fetched records behind; they were read before they were lost."""
    topic = broker.topic(1)
    broker.send(topic, [(0, f"{number}") for number in range(20)])
    query = lab.start(read(lab, broker, OURS, topic, maxOffsetsPerTrigger="4"), availableNow=True)
    assert len(lab.step(query)) == 20
    delete_before(broker, topic, 20)
    broker.send(topic, [(0, "next")])
    again = lab.start(read(lab, broker, OURS, topic), availableNow=True)
    assert offsets(lab.step(again)) == [(0, 20)]


def test_a_topic_that_was_made_again_ends_a_query(lab: Any, broker: Any, eventually: Any) -> None:
    topic = broker.topic(1)
    broker.send(topic, [(0, "x")] * 5)
    lab.step(lab.start(read(lab, broker, OURS, topic), availableNow=True))
    recreate(broker, topic, eventually)
    broker.send(topic, [(0, "x")] * 2)
    query = lab.start(read(lab, broker, OURS, topic), availableNow=True)
    with pytest.raises(StreamingQueryException, match=LOST):
        query.awaitTermination()
