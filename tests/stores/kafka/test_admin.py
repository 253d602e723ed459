"""Control of a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.errors import DsError
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.kafka.entities import KafkaEntities

pytestmark = pytest.mark.servers


@pytest.fixture
def admin(kafka_settings: Mapping[str, str]) -> KafkaAdmin:
    return KafkaAdmin("prod_kafka", kafka_settings)


@pytest.fixture
def topic() -> str:
    return f"t_{uuid.uuid4().hex[:10]}"


def plan(topic: str, partitions: int | None = 2, **more: object) -> EntityPlan:
    counts = {} if partitions is None else {"topic.partitions": partitions, "topic.replicas": 1}
    settings = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    return EntityPlan(topic, MappingProxyType(counts), MappingProxyType(settings), "db.public.r", **more)  # type: ignore[arg-type]


def test_creates_describes_and_agrees(admin: KafkaAdmin, topic: str) -> None:
    assert admin.describe(topic) is None
    made = admin.ensure(plan(topic))
    assert made.counts == {"topic.partitions": 2, "topic.replicas": 1}
    assert made.settings == {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    assert made.record_time == "broker"
    assert admin.ensure(plan(topic, stated=frozenset({"topic.partitions"}))) == made
    assert topic in [facts.name for facts in admin.entities()]


def test_a_stated_count_that_differs_is_refused(admin: KafkaAdmin, topic: str) -> None:
    admin.ensure(plan(topic))
    with pytest.raises(DsError) as problem:
        admin.ensure(plan(topic, 3, stated=frozenset({"topic.partitions"})))
    assert problem.value.condition == "ENTITY_COUNT_DIFFERS"
    assert "has topic.partitions = 2, db.public.r declares 3" in problem.value.message
    assert admin.ensure(plan(topic, 3)).counts["topic.partitions"] == 2, "an inferred count is for a new topic only"


def test_a_missing_topic_without_counts(admin: KafkaAdmin, topic: str) -> None:
    with pytest.raises(DsError) as problem:
        admin.ensure(plan(topic, None))
    assert problem.value.condition == "ENTITY_MISSING"
    assert admin.describe(topic) is None, "nothing is created by a refused plan"


def test_copies_what_is_not_written(admin: KafkaAdmin, topic: str) -> None:
    model = f"{topic}_model"
    settings = MappingProxyType({"retention.ms": "123456000"})
    admin.ensure(EntityPlan(model, MappingProxyType({"topic.partitions": 3, "topic.replicas": 1}), settings))
    made = admin.ensure(plan(topic, None, like=("prod_kafka", model)))
    assert made.counts["topic.partitions"] == 3
    assert made.settings["retention.ms"] == "123456000"
    assert made.settings["cleanup.policy"] == "compact"


def test_a_name_or_setting_the_broker_refuses(admin: KafkaAdmin, topic: str) -> None:
    with pytest.raises(DsError) as problem:
        admin.ensure(plan("not a topic"))
    assert problem.value.condition == "ENTITY_NAME_INVALID"
    counts = MappingProxyType({"topic.partitions": 1})
    with pytest.raises(DsError) as refused:
        admin.ensure(EntityPlan(topic, counts, MappingProxyType({"retention.ms": "soon"})))
    assert refused.value.condition == "ENTITY_REFUSED"


def test_prints_committed_records_only(admin: KafkaAdmin, topic: str, kafka_settings: Mapping[str, str]) -> None:
    admin.ensure(plan(topic, 1))
    producer = Producer({**kafka_settings, "transactional.id": f"x-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, key=b"k", value=b"kept")
    producer.produce(topic, key=b"k", value=None)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, key=b"k", value=b"aborted")
    producer.flush()
    producer.abort_transaction()
    found = list(admin.records(topic, from_beginning=True, limit=10, stopped=lambda: False))
    assert [(record.key, record.value) for record in found] == [(b"k", b"kept"), (b"k", None)]
    assert len(list(admin.records(topic, from_beginning=True, limit=1, stopped=lambda: False))) == 1
    assert list(admin.records(topic, from_beginning=False, limit=None, stopped=lambda: True)) == []
    assert admin.end_reached(topic, {"0": "0"}) >= 3
    assert admin.end_reached(topic, {"0": str(admin.end_reached(topic, {}))}) == 0


def test_records_since_a_moment(admin: KafkaAdmin, topic: str, kafka_settings: Mapping[str, str]) -> None:
    by_producer = MappingProxyType({"message.timestamp.type": "CreateTime"})
    admin.ensure(replace(plan(topic, 2), settings=by_producer))
    producer = Producer(dict(kafka_settings))
    for at in (1000, 2000, 3000):
        producer.produce(topic, value=str(at).encode(), partition=0, timestamp=at)
    producer.produce(topic, value=b"old", partition=1, timestamp=500)
    producer.flush()

    def values(since: int) -> list[bytes | None]:
        records = admin.records(topic, from_beginning=True, limit=10, stopped=lambda: False, since=since)
        return [record.value for record in records]

    assert values(2000) == [b"2000", b"3000"]
    assert values(4000) == []
    assert sorted(values(1)) == [b"1000", b"2000", b"3000", b"old"]  # type: ignore[type-var]


def test_printing_an_empty_topic_ends(admin: KafkaAdmin, topic: str) -> None:
    admin.ensure(plan(topic, 2))
    assert list(admin.records(topic, from_beginning=True, limit=5, stopped=lambda: False)) == []


def test_printing_a_topic_whose_records_are_gone_or_aborted_ends(
    admin: KafkaAdmin, topic: str, kafka_settings: Mapping[str, str]
) -> None:
    admin.ensure(replace(plan(topic, 2), settings=MappingProxyType({})))
    producer = Producer({**kafka_settings, "transactional.id": f"y-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, value=b"deleted", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, value=b"aborted", partition=1)
    producer.flush()
    producer.abort_transaction()
    whole = [TopicPartition(topic, 0, OFFSET_END)]
    client = AdminClient(dict(kafka_settings))
    for done in client.delete_records(whole).values():
        done.result(30)
    assert list(admin.records(topic, from_beginning=True, limit=5, stopped=lambda: False)) == []


def test_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.stores.kafka.admin.CALL_SECONDS", 1.0)
    gone = KafkaAdmin("prod_kafka", {"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(DsError) as problem:
        gone.describe("clicks")
    assert (problem.value.condition, problem.value.fault.hint) == ("STORE_UNREACHABLE", "back_off")
    assert not gone.probe().ok


def test_a_topic_that_another_drops_at_the_same_moment_is_not_found(
    admin: KafkaAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.ensure(plan(topic))
    operations = admin.operations()
    assert isinstance(operations, KafkaEntities)
    operations.drop((topic,))
    monkeypatch.setattr(operations, "_found", lambda path: None)  # it looked before the other one
    with pytest.raises(DsError) as problem:
        operations.drop((topic,))
    assert problem.value.condition == "ENTITY_NOT_FOUND"
