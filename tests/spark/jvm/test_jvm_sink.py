"""The transactional Kafka sink against a real broker: every batch once, whatever fails when."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame

from ds_dagster.spark.jvm import KAFKA_SINK, operator_error

pytestmark = [pytest.mark.spark, pytest.mark.servers]
ROWS = 600


def fill(broker: Any, topic: str, partitions: int, first: int = 0, count: int = ROWS) -> None:
    broker.send(topic, [(i % partitions, json.dumps({"id": i})) for i in range(first, first + count)])


def source(lab: Any, broker: Any, topic: str, **options: str) -> DataFrame:
    reader = lab.spark.readStream.format("kafka").name("rows").option("kafka.bootstrap.servers", broker.address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options)
    return reader.load().selectExpr("key", "value", "partition p")


def write(lab: Any, broker: Any, frame: DataFrame, topic: str, checkpoint: str = "sink", **options: str) -> Any:
    settings = {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "transactional.id": lab.job,
        "marker.group": f"{lab.job}-1",
        "checkpointLocation": str(lab.root / checkpoint),
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    return frame.writeStream.format(KAFKA_SINK).options(**settings).outputMode("append")


def run(lab: Any, writer: Any, expect: str | None = None) -> None:
    """To the end of what is there; ``expect`` is the condition or text it fails with."""
    query = writer.trigger(availableNow=True).start()
    lab.queries.append(query)
    if expect is None:
        assert query.awaitTermination(120)
    else:
        with pytest.raises(Exception, match=expect):
            query.awaitTermination(120)
    lab.operators.release_transaction(lab.job)


def ids(broker: Any, topic: str) -> Counter[int]:
    return Counter(json.loads(message.value())["id"] for message in broker.read(topic))


FIRST = [pytest.param(fault, marks=pytest.mark.slow) for fault in ("before-commit@0", "after-commit@0")]


@pytest.mark.parametrize("fault", [*FIRST, "before-commit@2", "after-commit@2"])
def test_a_failed_batch_is_neither_lost_nor_doubled(lab: Any, broker: Any, fault: str) -> None:
    """Four partitions: Spark turns the order of tasks around when it replays."""
    origin, target = broker.topic(4), broker.topic(2)
    fill(broker, origin, 4)
    frame = source(lab, broker, origin, maxOffsetsPerTrigger="160")
    lab.operators.set_fault(fault)
    run(lab, write(lab, broker, frame, target), expect="injected fault")
    run(lab, write(lab, broker, source(lab, broker, origin, minPartitions="9"), target))
    assert ids(broker, target) == Counter(range(ROWS))
    fill(broker, origin, 4, first=ROWS, count=10)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert ids(broker, target) == Counter(range(ROWS + 10))


def test_a_stateful_query_replays_through_a_committed_batch(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(2), broker.topic(1)
    fill(broker, origin, 2)
    counted = "CAST(to_json(named_struct('id', CAST(p AS INT), 'n', n)) AS BINARY) value"

    def frame() -> DataFrame:
        return source(lab, broker, origin).groupBy("p").count().withColumnRenamed("count", "n").selectExpr(counted)

    lab.operators.set_fault("after-commit@0")
    run(lab, write(lab, broker, frame(), target).outputMode("update"), expect="injected fault")
    run(lab, write(lab, broker, frame(), target).outputMode("update"))
    fill(broker, origin, 2, first=ROWS, count=2)
    run(lab, write(lab, broker, frame(), target).outputMode("update"))
    values = [json.loads(message.value()) for message in broker.read(target)]
    half = ROWS // 2
    assert sorted((v["id"], v["n"]) for v in values) == [(0, half), (0, half + 1), (1, half), (1, half + 1)]


def test_nothing_is_visible_before_the_commit(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(2), broker.topic(2)
    fill(broker, origin, 2)
    lab.operators.set_fault("before-commit@0")
    run(lab, write(lab, broker, source(lab, broker, origin), target), expect="injected fault")
    assert broker.read(target) == []


def test_a_second_owner_fences_the_first(lab: Any, broker: Any, eventually: Any) -> None:
    origin, target = broker.topic(2), broker.topic(2)
    first = write(lab, broker, source(lab, broker, origin), target).start()
    lab.queries.append(first)
    fill(broker, origin, 2, count=10)
    first.processAllAvailable()
    other = broker.producer(**{"transactional.id": lab.job})
    other.init_transactions(30)
    fill(broker, origin, 2, first=10, count=10)
    eventually(lambda: not first.isActive)
    failure = operator_error(first.exception())
    assert failure is not None
    assert failure.condition == "KAFKA_TRANSACTION_FENCED"
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert ids(broker, target) == Counter(range(20))


def test_fencing_a_dead_job_aborts_what_it_left_open(lab: Any, broker: Any) -> None:
    target = broker.topic(1)
    dead = broker.producer(**{"transactional.id": lab.job, "transaction.timeout.ms": 600000})
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(target, b"left open", partition=0)
    assert dead.flush(30) == 0
    assert broker.ends(target, "read_committed") == [0]
    lab.operators.fence_transaction(lab.job, {"bootstrap.servers": broker.address})
    assert broker.ends(target, "read_committed") == broker.ends(target, "read_uncommitted")
    assert broker.read(target) == []


def test_a_new_checkpoint_version_meets_no_old_marker(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(2), broker.topic(2)
    fill(broker, origin, 2, count=20)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    run(lab, write(lab, broker, source(lab, broker, origin), target, "second", marker_group=f"{lab.job}-2"))
    assert ids(broker, target) == Counter(dict.fromkeys(range(20), 2))


@pytest.mark.parametrize(("replay", "refused"), [("1", True), (None, True), ("-1", False)])
def test_a_lost_marker_is_refused_where_it_matters(lab: Any, broker: Any, replay: str | None, refused: bool) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=10)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    admin = AdminClient({"bootstrap.servers": broker.address})
    group = f"{lab.job}-1"
    admin.delete_consumer_groups([group])[group].result(30)
    fill(broker, origin, 1, first=10, count=10)
    options = {} if replay is None else {"replay_epoch": replay}
    writer = write(lab, broker, source(lab, broker, origin), target, **options)
    run(lab, writer, expect="KAFKA_MARKER_MISSING" if refused else None)
    assert ids(broker, target) == Counter(range(10 if refused else 20))


def test_headers_partition_key_and_one_time_for_a_batch(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(2), broker.topic(2, message_timestamp_type="CreateTime")
    fill(broker, origin, 2, count=40)
    frame = source(lab, broker, origin).selectExpr(
        "CAST('k' AS BINARY) key",
        "IF(p = 0, value, NULL) value",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) headers",
        "1 - p partition",
    )
    run(lab, write(lab, broker, frame, target))
    messages = broker.read(target)
    assert len(messages) == 40
    assert {message.key() for message in messages} == {b"k"}
    assert {tuple(message.headers()) for message in messages} == {(("h", b"x"),)}
    assert {(message.partition(), message.value() is None) for message in messages} == {(0, True), (1, False)}
    assert len({message.timestamp()[1] for message in messages}) == 1


def test_a_timestamp_column_is_kept(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=3)
    frame = source(lab, broker, origin).selectExpr("value", "timestamp_millis(1234567) timestamp")
    run(lab, write(lab, broker, frame, target))
    assert {message.timestamp()[1] for message in broker.read(target)} == {1234567}


def test_empty_batches_write_a_marker_once_and_no_rows(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=30)
    frame = source(lab, broker, origin, maxOffsetsPerTrigger="10").where("CAST(value AS STRING) LIKE 'none%'")
    run(lab, write(lab, broker, frame, target))
    assert broker.read(target) == []
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert broker.read(target) == []
    fill(broker, origin, 1, first=30, count=5)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert ids(broker, target) == Counter(range(30, 35))


@pytest.mark.parametrize("columns", [["key"], ["CAST(value AS STRING) value"]])
def test_wrong_columns_are_named(lab: Any, broker: Any, columns: list[str]) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=3)
    run(lab, write(lab, broker, source(lab, broker, origin).selectExpr(*columns), target), expect="KAFKA_SINK_COLUMNS")
