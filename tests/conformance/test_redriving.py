"""Records go back into a Kafka topic once, with the notes that say so, whenever the sender ends."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException

from ds_dagster.catalog.entity import EntityPlan, RawRecord
from ds_dagster.catalog.redriving import SENT_SUFFIX, FindsRecords, PutsRecords, RepairedRecord
from ds_dagster.clock import SystemClock
from ds_dagster.errors import DsError
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.questions.upkeep.noted_puts import SETTLED_SECONDS, ByNotes
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from tests.spark.kinesis.aggregates import aggregate

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
COUNT = 5


@pytest.fixture(scope="module")
def kafka(local_servers: Callable[..., LocalAddresses]) -> str:
    return local_servers("kafka").kafka


def repaired(number: int, partition: str | None = "0") -> RepairedRecord:
    note = json.dumps({"by": "me"})
    return RepairedRecord(f"0/{number}/7", f"k{number}".encode(), b'{"n": 1}', 1_000 + number, partition, note)


def committed(admin: KafkaAdmin, topic: str) -> list[RawRecord]:
    return list(admin.records(topic, from_beginning=True, limit=1 << 62, stopped=lambda: False))


def test_records_and_their_notes_are_there_together_and_once(kafka: str) -> None:
    topic = f"orders_{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdmin("k", {"bootstrap.servers": kafka})) as admin:
        admin.ensure(EntityPlan(topic, {"topic.partitions": 2, "topic.replicas": 1}))
        assert admin.operations().redriven(topic) == frozenset() and admin.describe(topic + SENT_SUFFIX) is None
        killed = admin.operations().redriver(topic)
        assert killed.sent() == frozenset()
        killed._producer.begin_transaction()
        for number in range(COUNT):
            killed._produce(repaired(number))
        killed._producer.flush(30)  # on the broker, not committed

        sender = admin.operations().redriver(topic)
        assert sender.sent() == frozenset() and committed(admin, topic) == []
        sender.send([repaired(number, str(number % 2)) for number in range(COUNT)])
        with pytest.raises(DsError):
            killed.send([repaired(9)])
        with pytest.raises(KafkaException):
            killed._producer.commit_transaction(30)  # the later sender has fenced it

        again = admin.operations().redriver(topic)
        assert again.sent() == {repaired(number).id for number in range(COUNT)}
        records = committed(admin, topic)
        assert sorted((r.key, r.partition, r.timestamp_millis) for r in records) == [
            (f"k{number}".encode(), str(number % 2), 1_000 + number) for number in range(COUNT)
        ]
        notes = committed(admin, topic + SENT_SUFFIX)
        assert [json.loads(note.value or b"") for note in notes] == [{"by": "me"}] * COUNT
        for redriver in (sender, again):
            redriver.close()


def test_records_are_found_by_their_place_and_a_gap_is_none(kafka: str) -> None:
    topic = f"orders_{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdmin("k", {"bootstrap.servers": kafka})) as admin:
        admin.ensure(EntityPlan(topic, {"topic.partitions": 2, "topic.replicas": 1}))
        sender = admin.operations().redriver(topic)
        for _ in range(2):  # an offset after each transaction is that of its marker
            sender.send([repaired(number, str(number % 2)) for number in range(COUNT)])
        sender.close()
        found = admin.operations().find_records(topic, [("0", "3"), ("0", "0"), ("0", "4"), ("1", "0"), ("0", "999")])
        expected = [record for record in committed(admin, topic) if (record.partition, record.position) in found]
        assert sorted(found) == [("0", "0"), ("0", "4"), ("1", "0")]
        assert sorted(found.values(), key=lambda r: r.key) == sorted(expected, key=lambda r: r.key)


def kinesis_admin(servers: LocalAddresses) -> KinesisAdmin:
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return KinesisAdmin("n", {"endpoint_url": servers.kinesis, "region_name": servers.region, **keys})


def test_records_of_a_stream_are_sent_in_portions_and_found_by_their_place(
    local_servers: Callable[..., LocalAddresses],
) -> None:
    stream = f"orders_{uuid.uuid4().hex[:8]}"
    with closing(kinesis_admin(local_servers("kinesis"))) as admin:
        admin.ensure(EntityPlan(stream, {"topic.shards": 2}))
        operations = admin.operations()
        assert isinstance(operations, PutsRecords) and isinstance(operations, FindsRecords)
        assert operations.kept_seconds(stream) == 86_400
        packed = aggregate([("a", b"1"), ("a", b"2")])
        records = [replace(repaired(number), value=b"%d" % number) for number in range(COUNT)]
        records += [
            replace(records[0], id="0/keyless/7", key=None),
            replace(records[0], id="0/packed/7", key=b"a", value=packed),
        ]
        assert [len(part) for part in operations.portions(stream, [*records, records[0]])] == [len(records), 1]
        (portion,) = operations.portions(stream, records)
        put = operations.put(stream, portion)
        assert (put.failed, put.is_known, put.written.keys()) == (None, True, {record.id for record in records})

        places = {id_: tuple(place.split("/")) for id_, place in put.written.items()}
        shard, number = places.pop("0/packed/7")
        wanted = [*places.values(), (shard, f"{number}.1"), (shard, f"{number}.2"), (shard, "1"), ("shardId-9", number)]
        found = operations.find_records(stream, wanted)
        assert {place: found[place].value for place in places.values()} == {
            places[record.id]: record.value for record in portion if record.id in places
        }
        assert {place: r.value for place, r in found.items() if place not in places.values()} == {
            (shard, f"{number}.1"): b"2"
        }
        assert operations.put("nothing_here", portion[:1]).is_known


class LaterClock(SystemClock):
    """This machine's, some seconds ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@pytest.mark.slow
def test_the_next_run_finds_what_a_killed_one_has_sent_into_a_stream(
    local_servers: Callable[..., LocalAddresses], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, stream, clock = local_servers("kafka", "kinesis"), f"orders_{uuid.uuid4().hex[:8]}", LaterClock()
    with closing(kinesis_admin(servers)) as admin, closing(KafkaAdmin("k", {"bootstrap.servers": servers.kafka})) as k:
        admin.ensure(EntityPlan(stream, {"topic.shards": 2}))
        k.ensure(EntityPlan(f"{stream}_log", {"topic.partitions": 1, "topic.replicas": 1}))
        way = ByNotes(admin, admin.operations(), "n", clock, False, k.operations(), f"{stream}_log")
        records = [replace(repaired(number), id=f"shardId-0/{number}/7") for number in range(COUNT)]
        killed = way.redriver(stream)
        assert killed.sent() == way.redriven(stream) == frozenset()
        write = killed.notes.write
        monkeypatch.setattr(killed.notes, "write", lambda notes: write(notes) if "sending" in str(notes) else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            killed.send(records)
        with pytest.raises(DsError, match="REDRIVE_UNDER_WAY"):
            way.redriver(stream).sent()
        with pytest.raises(DsError):
            write({records[0].id: "{}"})  # the later run has fenced it

        clock.ahead = SETTLED_SECONDS + 5
        sender = way.redriver(stream)
        assert sender.sent() == way.redriven(stream) == {record.id for record in records}
        sender.send([replace(records[0], id="shardId-0/9/7")])
        values = [record.key for record in admin.records(stream, from_beginning=True, limit=99, stopped=lambda: False)]
        assert sorted(values) == sorted([*(record.key for record in records), records[0].key])
