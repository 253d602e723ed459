"""The transactional Kafka sink against a real broker: every batch once, whatever fails when."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.catalog.ledger import Tip
from ds_dagster.errors import DsError
from ds_dagster.runtime.checkpoint_log import rewind_checkpoint
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.jvm import KAFKA_SINK, operator_error
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.stores.kafka.marker import ATTEMPTS
from tests.spark.conftest import Disk

pytestmark = [pytest.mark.spark, pytest.mark.servers]
ROWS = 600


def fill(broker: Any, topic: str, partitions: int, first: int = 0, count: int = ROWS) -> None:
    broker.send(topic, [(i % partitions, json.dumps({"id": i})) for i in range(first, first + count)])


def source(lab: Any, broker: Any, topic: str, **options: str) -> DataFrame:
    reader = lab.spark.readStream.format("kafka").name("rows").option("kafka.bootstrap.servers", broker.address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options)
    return reader.load().selectExpr("key", "value", "partition p")


def write(lab: Any, broker: Any, frame: DataFrame, topic: str, checkpoint: str = "sink", **options: str) -> Any:
    is_muted = bool(options.pop("is_muted", ""))
    settings = {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "transactional.id": lab.job,
        "marker.group": f"{lab.job}-1",
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    place = checkpoint if ":" in checkpoint else str(lab.root / checkpoint)
    settings = settle(lab, topic, settings, place, is_muted=is_muted)
    return frame.writeStream.format(KAFKA_SINK).options(**settings).outputMode("append")


def settle(
    lab: Any, topic: str, settings: dict[str, str], place: str, incarnation: str = "one", is_muted: bool = False
) -> dict[str, str]:
    """As the start of a query does it; ``incarnation`` tells a topic from a later one of its name."""
    account = Account.of(lab.spark, place, checkpoint_tip(lab.spark, place), {topic: incarnation}, is_muted=is_muted)
    spec = WriteSpec("stream", topic, "exactly_once", transactional=True)
    settled = account.settle(spec, SinkIdentity(lab.job, 1), settings)
    account.close()
    return {**settled, "checkpointLocation": place}


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


def test_a_muted_job_goes_on_from_a_checkpoint_that_went_back(lab: Any, broker: Any) -> None:
    """A hand-over that was given up leaves notes in the sink that are ahead of the checkpoint."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1)
    frame = source(lab, broker, origin, maxOffsetsPerTrigger="200")
    run(lab, write(lab, broker, frame.where("false"), target))
    rewind_checkpoint(lab.root / "sink", Tip(0))
    with pytest.raises(DsError, match="CHECKPOINT_BEHIND_SINK"):
        write(lab, broker, frame, target)
    run(lab, write(lab, broker, source(lab, broker, origin).where("false"), target, is_muted="yes"))
    fill(broker, origin, 1, first=ROWS, count=1)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert ids(broker, target) == Counter([ROWS])


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
    options = {"kafka.bootstrap.servers": broker.address, "topic": target, "transactional.id": lab.job}
    lab.operators.fence_transaction(options)
    assert broker.ends(target, "read_committed") == broker.ends(target, "read_uncommitted")
    assert broker.read(target) == []


def test_a_new_checkpoint_version_meets_no_old_marker(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(2), broker.topic(2)
    fill(broker, origin, 2, count=20)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    run(lab, write(lab, broker, source(lab, broker, origin), target, "second", marker_group=f"{lab.job}-2"))
    assert ids(broker, target) == Counter(dict.fromkeys(range(20), 2))


def remove_batches(place: Path, first: int, logs: tuple[str, ...] = ("offsets", "commits")) -> None:
    """What a host crash leaves, or a copy of the checkpoint that is older."""
    for log in logs:
        for path in (place / log).iterdir():
            if path.name.strip(".").split(".")[0].isdecimal() and int(path.name.strip(".").split(".")[0]) >= first:
                path.unlink()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_checkpoint_older_than_the_topic_is_refused(lab: Any, broker: Any, lost: int) -> None:
    """It was run on: batches under the numbers that the topic has were pulled and not written."""
    origin, target = broker.topic(2), broker.topic(2)
    fill(broker, origin, 2, count=40)
    run(lab, write(lab, broker, source(lab, broker, origin, maxOffsetsPerTrigger="10"), target))
    remove_batches(lab.root / "sink", 4 - lost)
    fill(broker, origin, 2, first=40, count=20)
    with pytest.raises(DsError) as problem:
        write(lab, broker, source(lab, broker, origin), target)
    assert (problem.value.condition, problem.value.params["sink"]) == ("CHECKPOINT_BEHIND_SINK", "batch 3")
    assert ids(broker, target) == Counter(range(40))


def test_a_batch_that_was_planned_again_is_refused(lab: Any, broker: Any) -> None:
    """The number is the topic's last one, the offsets are others."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=10)
    lab.operators.set_fault("after-commit@0")
    run(lab, write(lab, broker, source(lab, broker, origin), target), expect="injected fault")
    plan = lab.root / "sink" / "offsets" / "0"
    (lab.root / "sink" / "offsets" / ".0.crc").unlink(missing_ok=True)
    plan.write_text(plan.read_text().replace('":10', '":7'))
    with pytest.raises(DsError) as problem:
        write(lab, broker, source(lab, broker, origin), target)
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"


def test_within_a_run_nothing_is_skipped(lab: Any, broker: Any) -> None:
    """The start was not asked: a batch that the topic has already stops the query."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=10)
    writer = write(lab, broker, source(lab, broker, origin), target)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    run(lab, writer.option("checkpointLocation", str(lab.root / "other")), expect="CHECKPOINT_BEHIND_SINK")
    assert ids(broker, target) == Counter(range(10))


@pytest.mark.parametrize("rested", [True, False])
def test_a_marker_that_is_gone(lab: Any, broker: Any, rested: bool) -> None:
    """Group offsets expire while a job rests; where its last batch is open it may have been written."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=10)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    fill(broker, origin, 1, first=10, count=10)
    if not rested:
        lab.operators.set_fault("after-commit@1")
        run(lab, write(lab, broker, source(lab, broker, origin), target), expect="injected fault")
    admin = AdminClient({"bootstrap.servers": broker.address})
    group = f"{lab.job}-1"
    admin.delete_consumer_groups([group])[group].result(30)
    if rested:
        run(lab, write(lab, broker, source(lab, broker, origin), target))
    else:
        with pytest.raises(DsError) as problem:
            write(lab, broker, source(lab, broker, origin), target)
        assert problem.value.condition == "SINK_BEHIND_CHECKPOINT"
    assert ids(broker, target) == Counter(range(20))


def test_a_topic_made_again_is_gone(lab: Any, broker: Any) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=10)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    options = {"kafka.bootstrap.servers": broker.address, "topic": target, "transactional.id": lab.job}
    with pytest.raises(DsError) as problem:
        settle(lab, target, options, str(lab.root / "sink"), incarnation="two")
    assert problem.value.condition == "TARGET_GONE"
    settle(lab, target, options, str(lab.root / "fresh"), incarnation="two")


def test_a_marker_of_an_earlier_version_is_behind_empty_batches(lab: Any, broker: Any) -> None:
    """It had no metadata, and none was written where a batch had no rows."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=30)
    frame = source(lab, broker, origin, maxOffsetsPerTrigger="10")
    run(lab, write(lab, broker, frame, target))
    earlier = Consumer({"bootstrap.servers": broker.address, "group.id": f"{lab.job}-1"})
    earlier.commit(offsets=[TopicPartition(target, 0, 1)], asynchronous=False)
    earlier.close()
    fill(broker, origin, 1, first=30, count=10)
    run(lab, write(lab, broker, source(lab, broker, origin), target))
    assert ids(broker, target) == Counter(range(40))


def on_losing_disk(lab: Any) -> Disk:
    folder = lab.root / "disk"
    folder.mkdir()
    lab.spark.conf.set("fs.losing.impl", "dsdagster.fs.LosingFileSystem")
    disk = Disk(lab.spark, folder)
    disk.lose()
    return disk


def attempt(lab: Any, broker: Any, origin: str, target: str, disk: Disk) -> bool:
    """Everything that is there, counted by partition; whether the power lasted."""
    row = "CAST(to_json(named_struct('id', p, 'n', n)) AS BINARY) value"
    rows = source(lab, broker, origin, maxOffsetsPerTrigger="10")
    frame = rows.groupBy("p").count().withColumnRenamed("count", "n").selectExpr(row)
    try:
        place = f"losing:{disk.folder}/sink"
        query = write(lab, broker, frame, target, place).outputMode("update").trigger(availableNow=True).start()
        lab.queries.append(query)
        query.awaitTermination(120)
    except (DsError, *SPARK_ERRORS) as problem:
        assert disk.is_off, problem
    finally:
        lab.operators.release_transaction(lab.job)
    return not disk.is_off


def test_a_power_failure_loses_and_doubles_nothing(lab: Any, broker: Any) -> None:
    """At every step on the disk of the checkpoint; what was not forced to it is gone."""
    origin, target, disk = broker.topic(1), broker.topic(1), on_losing_disk(lab)
    fill(broker, origin, 1, count=30)
    steps = 0
    disk.power(steps)
    while not attempt(lab, broker, origin, target, disk):
        disk.lose(names=steps % 2 == 1)
        steps += 3
        disk.power(steps)
    disk.power()
    assert steps >= 9
    assert [json.loads(message.value())["n"] for message in broker.read(target)] == [10, 20, 30]


def test_a_disk_that_is_not_forced_is_refused_after_a_power_failure(lab: Any, broker: Any) -> None:
    """What ``durable = false`` gives up: the topic has batches of which the checkpoint knows nothing."""
    origin, target, disk = broker.topic(1), broker.topic(1), on_losing_disk(lab)
    fill(broker, origin, 1, count=10)
    assert attempt(lab, broker, origin, target, disk)
    disk.power(forced=False)
    fill(broker, origin, 1, first=10, count=20)
    assert attempt(lab, broker, origin, target, disk)
    disk.lose()
    with pytest.raises(DsError) as problem:
        write(lab, broker, source(lab, broker, origin), target, f"losing:{disk.folder}/sink")
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"


def mark(lab: Any, broker: Any, topic: str, batch: int, metadata: str) -> None:
    position = TopicPartition(topic, 0, batch, metadata)
    group = ConsumerGroupTopicPartitions(f"{lab.job}-1", [position])
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.alter_consumer_group_offsets([group])[group.group_id].result(30)


def marker(lab: Any, broker: Any, topic: str) -> tuple[int, dict[str, Any]]:
    group = ConsumerGroupTopicPartitions(f"{lab.job}-1", [TopicPartition(topic, 0)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    for _ in range(ATTEMPTS):
        (found,) = admin.list_consumer_group_offsets([group])[group.group_id].result(30).topic_partitions
        with suppress(UnicodeDecodeError):  # the client ends the text at the next zero byte in memory
            noted, _ = json.JSONDecoder().raw_decode(found.metadata)
            return found.offset, noted
    pytest.fail("the metadata of the marker is not text")


def test_the_marker_tells_the_offsets_of_every_batch(lab: Any, broker: Any) -> None:
    """An empty one too: a marker behind the checkpoint means lost rows."""
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=30)
    frame = source(lab, broker, origin, maxOffsetsPerTrigger="10").where("CAST(value AS STRING) LIKE 'none%'")
    run(lab, write(lab, broker, frame, target))
    batch, metadata = marker(lab, broker, target)
    assert batch == 2
    offsets = [{origin: {"0": 30}}]
    canonical = json.dumps(offsets, separators=(",", ":")).encode()
    assert metadata == {"digest": hashlib.sha256(canonical).hexdigest(), "offsets": offsets, "sources": {}}
    mark(lab, broker, target, 1, json.dumps({"digest": "aa"}))
    with pytest.raises(DsError) as problem:
        write(lab, broker, frame, target)
    assert problem.value.condition == "SINK_BEHIND_CHECKPOINT"
    lab.operators.release_transaction(lab.job)
    mark(lab, broker, target, 2, "of tomorrow")
    with pytest.raises(DsError) as problem:
        write(lab, broker, frame, target)
    assert problem.value.condition == "KAFKA_MARKER_UNREADABLE"


def test_offsets_that_do_not_fit_are_told_by_their_digest(lab: Any, broker: Any) -> None:
    target = broker.topic(1)
    origins = [broker.topic(1, name=f"{number:x>240}") for number in range(20)]
    fill(broker, origins[0], 1, count=5)
    run(lab, write(lab, broker, source(lab, broker, ",".join(origins)), target))
    _, metadata = marker(lab, broker, target)
    assert set(metadata) == {"digest"}


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


@pytest.mark.parametrize("columns", [["key"], ["CAST(value AS STRING) value"]])
def test_wrong_columns_are_named(lab: Any, broker: Any, columns: list[str]) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=3)
    run(lab, write(lab, broker, source(lab, broker, origin).selectExpr(*columns), target), expect="KAFKA_SINK_COLUMNS")
