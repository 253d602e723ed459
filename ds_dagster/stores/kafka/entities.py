"""Entity statements of a Kafka store: the admin client creates, changes and drops topics, a producer writes records, a
consumer reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.catalog.reading.past import Past, PastRequest
from ds_dagster.catalog.redriving import Notes, Redriver
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.stores.entity_common import json_value, not_found, path_invalid, record_invalid, shown_path

if TYPE_CHECKING:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

CALL_SECONDS = 10.0
POLL_SECONDS = 0.2
PARTITIONS, REPLICAS = "topic.partitions", "topic.replicas"
BROKER_DEFAULT = -1
SHAPE = 'one name: "topic"'
MARKERS = 2
"""Transaction markers take offsets too, so this many times the wanted number of offsets is read."""
REFUSALS = ("INVALID_CONFIG", "INVALID_PARTITIONS", "POLICY_VIOLATION", "INVALID_REQUEST", "TOPIC_EXCEPTION")


class KafkaEntities:
    """See ``catalog.entity_operations.EntityOperations``. Topics have no levels: a path is one name; several parts are
    joined with dots."""

    follows = True

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self.store = admin.store

    def path_of(self, relation: Relation) -> EntityPath:
        """The topic."""
        return (relation.entity,)

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """All topics but the broker's own."""
        if path:
            raise path_invalid(self.store, path, "empty: topics have no levels, leave IN out")
        return [EntityNode((facts.name,), "topic") for facts in self._admin.entities()]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Partitions, replicas, settings; size: offsets between beginning and end (including transaction markers and
        compacted records); newest: last offset by partition."""
        topic = self._topic(path)
        facts = self._admin.describe(topic)
        if facts is None:
            return None
        ends = self._ends(topic)
        size = sum(high - low for low, high in ends.values())
        newest = {str(number): str(high - 1) for number, (low, high) in ends.items() if high > low}
        return EntityDescription((topic,), "topic", _sized(facts, size), newest=MappingProxyType(newest))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create a topic; partitions and replicas that are not given are the broker's default."""
        topic = self._topic(path)
        if self._admin.describe(topic) is not None:
            raise error("ENTITY_EXISTS", store=self.store, entity=shown_path(path))
        counts = {PARTITIONS: BROKER_DEFAULT, **plan.counts}
        self._admin.ensure(replace(plan, name=topic, counts=MappingProxyType(counts)))

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Change settings, and add partitions; other changes of partitions and replicas are refused."""
        topic = self._topic(path)
        facts = self._found(path)
        for name, wanted in plan.counts.items():
            current = facts.counts[name]
            reason = "partitions can only be added" if name == PARTITIONS else "only the brokers change replicas"
            if (name != PARTITIONS and wanted != current) or wanted < current:
                raise error(
                    "ENTITY_NOT_CHANGED",
                    name=name,
                    entity=shown_path(path),
                    found=current,
                    wanted=wanted,
                    reason=reason,
                )
        if plan.settings:
            self._configure(topic, plan.settings)
        if plan.counts.get(PARTITIONS, 0) > facts.counts[PARTITIONS]:
            self._grow(topic, plan.counts[PARTITIONS])

    def drop(self, path: EntityPath) -> None:
        """Delete the topic and wait until the brokers no longer name it."""
        topic = self._topic(path)
        self._found(path)
        self._future("delete_topics", [topic], f"delete the topic {topic}", topic, operation_timeout=CALL_SECONDS)
        self._await(lambda: self._is_gone(topic), f"delete the topic {topic}")

    def empty(self, path: EntityPath) -> None:
        """Delete all records up to the end of each partition; brokers refuse this for a compacted topic."""
        from confluent_kafka import OFFSET_END, TopicPartition

        topic = self._topic(path)
        self._found(path)
        places = [TopicPartition(topic, number, OFFSET_END) for number in self._ends(topic)]
        self._future("delete_records", places, f"delete the records of the topic {topic}", topic)

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Write one record, acknowledged by all in-sync replicas; returns ``partition/offset``."""
        topic = self._topic(path)
        self._found(path)
        if record.value is None and record.key is None:
            raise record_invalid(path, "NULL deletes a key, and there is none: write WITH ('key' = '…')")
        if record.value is not None:
            json_value(path, record.value)
        return self._produced(topic, record)

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """The ``limit`` newest committed records over all partitions, ordered by timestamp."""
        topic = self._topic(path)
        self._found(path)
        consumer = self._admin._consumer()
        try:
            parts = self._admin._partitions(topic)
            for part in parts:
                low, high = self._admin._watermarks(consumer, part)
                part.offset = max(low, high - MARKERS * limit - 1)
            consumer.assign(parts)
            records = self._until_end(consumer, topic, {part.partition for part in parts})
        finally:
            consumer.close()
        return sorted(records, key=lambda record: record.timestamp_millis)[-limit:]

    def extents(self, entity: str, since: int | None = None) -> Mapping[str, Extent]:
        """See ``catalog.reading.extent.TellsExtents``."""
        from ds_dagster.stores.kafka.extents import extents

        return extents(self._admin, self._found((entity,)).name, since)

    def past(self, request: PastRequest) -> Past:
        """See ``catalog.reading.past.ReadsPast``."""
        from ds_dagster.stores.kafka.past import past

        return past(self._admin, request)

    def retention_millis(self, entity: str) -> int | None:
        """See ``catalog.reading.extent.TellsExtents``."""
        millis = int(self._admin._settings(entity).get("retention.ms", ("-1", False))[0])
        return None if millis < 0 else millis

    def redriven(self, entity: str) -> frozenset[str]:
        """See ``catalog.redriving.Redrives``."""
        return frozenset(self.noted(entity))

    def redriver(self, entity: str) -> Redriver:
        """See ``catalog.redriving.Redrives``."""
        from ds_dagster.stores.kafka.redriving import KafkaRedriver

        self._found((entity,))
        return KafkaRedriver(self._admin, entity)

    def noted(self, name: str) -> Mapping[str, str]:
        """See ``catalog.redriving.KeepsNotes``."""
        from ds_dagster.stores.kafka.redriving import noted

        return noted(self._admin, name)

    def notes(self, name: str, like: str) -> Notes:
        """See ``catalog.redriving.KeepsNotes``."""
        from ds_dagster.stores.kafka.redriving import KafkaNotes

        return KafkaNotes(self._admin, name, like)

    def find_records(self, entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        """See ``catalog.redriving.FindsRecords``."""
        from ds_dagster.stores.kafka.finding import find

        return find(self._admin, self._found((entity,)).name, places)

    def close(self) -> None:
        """Does nothing: the admin closes its clients."""

    def _topic(self, path: EntityPath) -> str:
        if not path:
            raise path_invalid(self.store, path, SHAPE)
        return ".".join(path)

    def _found(self, path: EntityPath) -> EntityFacts:
        facts = self._admin.describe(self._topic(path))
        if facts is None:
            raise not_found(self.store, path, [entity.name for entity in self._admin.entities()])
        return facts

    def _is_gone(self, topic: str) -> bool:
        """Whether the metadata no longer names the topic; its settings and its id disappear a little earlier."""
        topic_metadata = self._admin._metadata(topic).topics.get(topic)
        return topic_metadata is None or topic_metadata.error is not None or not topic_metadata.partitions

    def _ends(self, topic: str) -> dict[int, tuple[int, int]]:
        consumer = self._admin._consumer()
        try:
            parts = self._admin._partitions(topic)
            return {part.partition: self._admin._watermarks(consumer, part) for part in parts}
        finally:
            consumer.close()

    def _until_end(self, consumer: Any, topic: str, open_parts: set[int]) -> list[RawRecord]:
        """The records up to the present end of each partition."""
        from ds_dagster.stores.kafka.admin import _raw

        records: list[RawRecord] = []
        ends = time.monotonic() + CALL_SECONDS
        while open_parts and time.monotonic() < ends:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                records.append(_raw(message))
            elif problem.name() == "_PARTITION_EOF":
                open_parts.discard(message.partition())
            else:
                raise self._admin._failure(problem, f"read records of {topic}")
        return records

    def _configure(self, topic: str, settings: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._future("incremental_alter_configs", [resource], f"change the settings of {topic}", topic)

    def _grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        action = f"add partitions to {topic}"
        self._future("create_partitions", [NewPartitions(topic, partitions)], action, topic)

        def grown() -> bool:
            facts = self._admin.describe(topic)
            return facts is not None and facts.counts[PARTITIONS] == partitions

        self._await(grown, action)

    def _future(self, method: str, items: Sequence[Any], action: str, topic: str, **more: Any) -> None:
        """One call of the admin client about one topic."""
        from confluent_kafka import KafkaException

        try:
            futures = getattr(self._admin._admin(), method)(items, request_timeout=CALL_SECONDS, **more)
            for future in futures.values():
                future.result(CALL_SECONDS * 2)
        except KafkaException as problem:
            raise self._failed(problem.args[0], action, topic) from None

    def _failed(self, problem: Any, action: str, topic: str) -> DsError:
        if problem.name() in REFUSALS:
            detail = str(problem.str())
            return error("ENTITY_REFUSED", store=self.store, action=action, relation=topic, detail=detail)
        if problem.name() == "UNKNOWN_TOPIC_OR_PART":  # it was there a moment ago
            return not_found(self.store, (topic,))
        return self._admin._failure(problem, action)

    def _await(self, reached: Callable[[], bool], action: str) -> None:
        ends = time.monotonic() + CALL_SECONDS
        while time.monotonic() < ends:
            if reached():
                return
            self._admin._admin().poll(POLL_SECONDS)
        raise error("STORE_CALL_FAILED", store=self.store, action=action)

    def _produced(self, topic: str, record: NewRecord) -> str:
        from confluent_kafka import Producer

        outcomes: list[tuple[Any, Any]] = []
        milliseconds = int(CALL_SECONDS * 1000)
        producer = self._admin._made(Producer, {"acks": "all", "message.timeout.ms": milliseconds, "linger.ms": 0})
        producer.produce(
            topic,
            value=None if record.value is None else record.value.encode(),
            key=None if record.key is None else record.key.encode(),
            on_delivery=lambda problem, message: outcomes.append((problem, message)),
        )
        producer.flush(CALL_SECONDS * 2)
        if not outcomes:
            raise error("STORE_CALL_FAILED", store=self.store, action=f"write a record into {topic}")
        problem, message = outcomes[0]
        if problem is not None:
            raise self._admin._failure(problem, f"write into {topic}")
        return f"{message.partition()}/{message.offset()}"


def _sized(facts: EntityFacts, size: int) -> EntityFacts:
    return replace(facts, size=size)
