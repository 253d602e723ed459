"""Control of a Kafka cluster through librdkafka: probe, describe, create, print, lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.lag import SourceLag
from ds_dagster.catalog.reading.skew import ClockSkew
from ds_dagster.errors import DsError, error
from ds_dagster.stores.kafka import clock as kafka_clock
from ds_dagster.stores.kafka import faults as kafka_faults
from ds_dagster.stores.kafka import lag as kafka_lag
from ds_dagster.stores.kafka.kind import ENTITY_RULE
from ds_dagster.stores.kafka.marker import read_marker, write_marker
from ds_dagster.stores.probing import probed

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

CALL_SECONDS = 10.0
POLL_SECONDS = 0.2
ATTEMPT_SECONDS = 1.0
"""Timeout of one attempt; between attempts librdkafka reports why it cannot connect."""
PRINT_GROUP = "ds-dagster-print"
PARTITIONS, REPLICAS = "topic.partitions", "topic.replicas"
RECORD_TIMES: Mapping[str, Literal["broker", "producer"]] = MappingProxyType(
    {"LogAppendTime": "broker", "CreateTime": "producer"}
)
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen zero bytes."""
TOPIC_CONFIG_SOURCE = 1
"""``DYNAMIC_TOPIC_CONFIG``: settings of the topic itself."""
NOT_THERE = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "TOPIC_EXCEPTION", "LEADER_NOT_AVAILABLE"})
"""Errors for a topic that does not exist, or not yet."""
REFUSALS = (
    "INVALID_CONFIG",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_PARTITIONS",
    "POLICY_VIOLATION",
    "TOPIC_EXCEPTION",
    "INVALID_REQUEST",
)
T = TypeVar("T")


class KafkaAdmin:
    """See ``catalog.store.StoreAdmin``. Connects at the first call; each request has a timeout of ten seconds."""

    def __init__(self, store: str, config: Mapping[str, Any]) -> None:
        self.store = store
        self._config = dict(config)
        self._client: Any = None
        self._looking: Any = None
        self._told: list[tuple[str, str]] = []
        self._unreachable_since: float | None = None

    def __repr__(self) -> str:
        return f"KafkaAdmin({self.store}, {self.address})"

    @property
    def address(self) -> str:
        """Bootstrap servers."""
        return kafka_faults.address_of(self._config)

    def probe(self) -> ProbeResult:
        """Whether the brokers answer and accept the login."""
        return probed(lambda: f"{len(self._metadata().brokers)} brokers at {self.address}")

    def skew(self, entities: Sequence[str]) -> ClockSkew | None:
        """See ``catalog.reading.skew.TellsTime``."""
        return kafka_clock.skew_of(self, entities)

    def describe(self, entity: str) -> EntityFacts | None:
        """Partitions, replicas and settings of a topic, None when it does not exist."""
        topic = self._metadata(entity).topics.get(entity)
        if topic is None or topic.error is not None or not topic.partitions:
            self._check_topic_error(entity, topic)
            return None
        replicas = min(len(partition.replicas) for partition in topic.partitions.values())
        settings = self._settings(entity)
        return EntityFacts(
            name=entity,
            counts=MappingProxyType({PARTITIONS: len(topic.partitions), REPLICAS: replicas}),
            settings=MappingProxyType({name: value for name, (value, own) in settings.items() if own}),
            record_time=RECORD_TIMES.get(settings.get("message.timestamp.type", ("", False))[0]),
            identity=self._topic_id(entity),
        )

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Make sure a topic exists with the stated counts; a new one copies the others from the ``like`` topic.

        Raises:
            UserError: ENTITY_MISSING, ENTITY_COUNT_DIFFERS, ENTITY_NAME_INVALID, ENTITY_REFUSED.
        """
        if not ENTITY_RULE.takes(plan.name):
            raise error("ENTITY_NAME_INVALID", entity=plan.name, store=self.store, allowed=ENTITY_RULE.words)
        topic = self.describe(plan.name)
        if topic is None:
            plan = self._completed(plan)
            self._create(plan)
            topic = self._await_topic(plan)
        for name in sorted(plan.stated):
            if topic.counts.get(name) != plan.counts[name]:
                raise error(
                    "ENTITY_COUNT_DIFFERS",
                    entity=plan.name,
                    store=self.store,
                    name=name,
                    found=topic.counts.get(name),
                    relation=plan.used_by,
                    wanted=plan.counts[name],
                )
        return topic

    def _completed(self, plan: EntityPlan) -> EntityPlan:
        if plan.like is not None and plan.like[0] == self.store:
            model = self.describe(plan.like[1])
            plan = plan.completed(model) if model is not None else plan
        if PARTITIONS not in plan.counts:
            raise error(
                "ENTITY_MISSING",
                entity=plan.name,
                store=self.store,
                reason="the number of partitions is not given",
                missing=f"'{PARTITIONS}' and '{REPLICAS}'",
                relation=plan.used_by,
            )
        return plan

    def _create(self, plan: EntityPlan) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(
            plan.name,
            num_partitions=plan.counts[PARTITIONS],
            replication_factor=plan.counts.get(REPLICAS, -1),
            config=dict(plan.settings),
        )
        try:
            futures = self._admin().create_topics([topic], operation_timeout=CALL_SECONDS, request_timeout=CALL_SECONDS)
            futures[plan.name].result(CALL_SECONDS * 2)
        except KafkaException as problem:
            name, action = problem.args[0].name(), f"create the topic {plan.name}"
            if name == "TOPIC_ALREADY_EXISTS":
                return
            if name in REFUSALS:
                detail = str(problem.args[0].str())
                raise error(
                    "ENTITY_REFUSED", store=self.store, action=action, relation=plan.used_by, detail=detail
                ) from problem
            raise self._failure(problem.args[0], action) from problem

    def _await_topic(self, plan: EntityPlan) -> EntityFacts:
        """Wait until the brokers know a new topic, at most ten seconds."""
        ends = time.monotonic() + CALL_SECONDS
        while time.monotonic() < ends:
            topic = self.describe(plan.name)
            if topic is not None:
                return topic
            self._admin().poll(POLL_SECONDS)
        raise error("STORE_CALL_FAILED", store=self.store, action=f"show the new topic {plan.name}")

    def entities(self) -> Sequence[EntityFacts]:
        """All topics but those whose names begin with ``__`` (the broker's own), with their numbers of partitions."""
        topics = self._metadata().topics
        return [
            EntityFacts(name, MappingProxyType({PARTITIONS: len(topics[name].partitions)}))
            for name in sorted(topics)
            if not name.startswith("__")
        ]

    def records(
        self,
        entity: str,
        *,
        from_beginning: bool,
        limit: int | None,
        stopped: Callable[[], bool],
        since: int | None = None,
    ) -> Iterator[RawRecord]:
        """Committed records by arrival; from the beginning and with a limit, also ends at the topic's present end.

        Raises:
            UserError: ENTITY_ABSENT.
        """
        consumer = self._consumer()
        try:
            parts = self._partitions(entity)
            marks = {part.partition: self._watermarks(consumer, part) for part in parts}
            begins = {number: low if from_beginning else high for number, (low, high) in marks.items()}
            if from_beginning and since is not None:
                begins = self._begins_since(consumer, parts, since, marks)
            for part in parts:
                part.offset = begins[part.partition]
            consumer.assign(parts)
            until = {number: high for number, (_, high) in marks.items() if high > begins[number]}
            ends = until if limit is not None and from_beginning else None
            yield from self._polled(consumer, entity, ends, limit, stopped)
        finally:
            consumer.close()

    def _polled(
        self, consumer: Any, entity: str, ends: Mapping[int, int] | None, limit: int | None, stopped: Callable[[], bool]
    ) -> Iterator[RawRecord]:
        """Records as they come; with ``ends``, until every partition is read to its end. After the last record of a
        partition there may be only transaction markers: then the event of the partition's end stops it."""
        count = 0
        waiting = set(ends or ())
        while not stopped() and (limit is None or count < limit) and (ends is None or waiting):
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            number = message.partition()
            if message.error() is None:
                yield _raw(message)
                count += 1
                if ends is not None and message.offset() + 1 >= ends.get(number, 0):
                    waiting.discard(number)
            elif message.error().name() == "_PARTITION_EOF":
                waiting.discard(number)
            else:
                raise self._failure(message.error(), f"read records of {entity} as consumer group {PRINT_GROUP}")

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Records (transaction markers among them) between read positions and the end of committed data; partitions
        without a position count from their beginning."""
        consumer = self._consumer()
        try:
            ends = [(str(part.partition), *self._watermarks(consumer, part)) for part in self._partitions(entity)]
            return sum(max(high - max(int(positions.get(part, low)), low), 0) for part, low, high in ends)
        finally:
            consumer.close()

    def lag(self, entity: str, positions: Mapping[str, int]) -> SourceLag:
        """See ``catalog.reading.lag.LagProbe``; keeps a consumer for the next look."""
        numbers, client = [part.partition for part in self._partitions(entity)], self._admin()
        action = f"read the ends of {entity}"
        ends = self._translated(action, lambda: kafka_lag.ends_of(client, entity, numbers, CALL_SECONDS))
        self._looking = self._looking or self._consumer(kafka_lag.CONSUMER)
        return replace(kafka_lag.lag_of(self._looking, entity, ends, positions), identity=self.identity(entity))

    def identity(self, entity: str) -> str:
        """The topic's id, empty without such a topic."""
        topic = self._metadata(entity).topics.get(entity)
        self._check_topic_error(entity, topic)
        return "" if topic is None or topic.error is not None else self._topic_id(entity)

    def marker(self, group: str, entity: str) -> Tip | None:
        """See ``catalog.store.MarkerReader``."""
        client, action = self._admin(), f"read the offsets of consumer group {group}"
        return self._translated(action, lambda: read_marker(client, group, entity, CALL_SECONDS))

    def note_marker(self, group: str, entity: str, tip: Tip) -> None:
        """See ``catalog.store.MarkerReader``."""
        client, action = self._admin(), f"note a batch for consumer group {group}"
        self._translated(action, lambda: write_marker(client, group, entity, tip, CALL_SECONDS))

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.kafka.entities import KafkaEntities

        return KafkaEntities(self)

    def close(self) -> None:
        """Release the clients; librdkafka then closes its sockets."""
        self._client = None
        if self._looking is not None:
            self._looking.close()
            self._looking = None

    def _admin(self) -> Any:
        if self._client is None:
            try:
                from confluent_kafka.admin import AdminClient
            except ImportError as problem:
                raise error("STORE_DRIVER_MISSING", type="KAFKA", package="confluent-kafka") from problem
            self._client = self._made(AdminClient, {})
        return self._client

    def _made(self, client: Any, more: Mapping[str, Any]) -> Any:
        """A client of librdkafka with the store's settings."""
        from confluent_kafka import KafkaException

        config = {**self._config, **more, "error_cb": self._noted, "log_level": 0}
        try:
            return client(config)
        except KafkaException as problem:
            raise kafka_faults.not_made(self.store, self._config, problem.args[0]) from problem

    def _noted(self, problem: Any) -> None:
        """Called by librdkafka with the reason why it cannot connect; the calls themselves only time out."""
        self._told = [*self._told[-20:], (problem.name(), str(problem.str()))]

    def _metadata(self, topic: str | None = None) -> Any:
        """Metadata of one topic, or of all; in short attempts, so that a user's mistake is reported early."""
        from confluent_kafka import KafkaException

        ends = time.monotonic() + CALL_SECONDS
        while True:
            try:
                metadata = self._admin().list_topics(topic, timeout=min(ATTEMPT_SECONDS, CALL_SECONDS))
            except KafkaException as problem:
                self._admin().poll(POLL_SECONDS)
                failed = self._failure(problem.args[0], "list topics")
                if failed.condition != "STORE_UNREACHABLE" or time.monotonic() > ends:
                    raise failed from problem
            else:
                self._unreachable_since = None
                self._told.clear()
                return metadata

    def _settings(self, topic: str) -> Mapping[str, tuple[str, bool]]:
        """Setting → (value, whether it was set on the topic itself)."""
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        configs = self._admin().describe_configs([resource], request_timeout=CALL_SECONDS)
        entries = self._translated(f"read the settings of {topic}", lambda: configs[resource].result(CALL_SECONDS * 2))
        return {name: (str(entry.value), int(entry.source) == TOPIC_CONFIG_SOURCE) for name, entry in entries.items()}

    def _topic_id(self, topic: str) -> str:
        """The id of a topic; empty on brokers before 2.8, which have no ids."""
        from confluent_kafka import TopicCollection

        answers = self._admin().describe_topics(TopicCollection([topic]), request_timeout=CALL_SECONDS)
        facts = self._translated(f"describe the topic {topic}", lambda: answers[topic].result(CALL_SECONDS * 2))
        topic_id = str(facts.topic_id)
        return "" if topic_id == NO_TOPIC_ID else topic_id

    def _check_topic_error(self, entity: str, topic: Any) -> None:
        """Raise errors other than a missing topic: a topic may exist without a permission to look at it."""
        if topic is not None and topic.error is not None and topic.error.name() not in NOT_THERE:
            raise self._failure(topic.error, f"describe the topic {entity}")

    def _partitions(self, entity: str) -> list[TopicPartition]:
        from confluent_kafka import TopicPartition

        topic = self._metadata(entity).topics.get(entity)
        self._check_topic_error(entity, topic)
        if topic is None or topic.error is not None:
            raise error("ENTITY_ABSENT", entity=entity, store=self.store)
        return [TopicPartition(entity, number) for number in sorted(topic.partitions)]

    def _consumer(self, more: Mapping[str, Any] = MappingProxyType({})) -> Any:
        from confluent_kafka import Consumer

        settings = {
            "group.id": PRINT_GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **more,
        }
        return self._made(Consumer, settings)

    def _watermarks(self, consumer: Any, part: TopicPartition) -> tuple[int, int]:
        action = f"read the ends of {part.topic}"
        return self._translated(action, lambda: kafka_lag.watermarks(consumer, part, CALL_SECONDS))

    def _begins_since(
        self, consumer: Any, parts: Sequence[TopicPartition], since: int, marks: Mapping[int, tuple[int, int]]
    ) -> dict[int, int]:
        action = f"look for records of {parts[0].topic} by time"
        begins = self._translated(action, lambda: kafka_lag.begins_since(consumer, parts, since, CALL_SECONDS))
        return {number: begins.get(number, high) for number, (_, high) in marks.items()}

    def _translated(self, action: str, call: Callable[[], T]) -> T:
        """The result of a call; an exception of librdkafka becomes a condition that names the action."""
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as problem:
            raise self._failure(problem.args[0], action) from problem

    def _failure(self, problem: Any, action: str) -> DsError:
        """A librdkafka error as a condition."""
        seconds = 0
        if problem.name() in kafka_faults.UNREACHABLE_ERRORS:
            self._unreachable_since = self._unreachable_since or time.monotonic()
            seconds = int(time.monotonic() - self._unreachable_since)
        return kafka_faults.failure(self.store, self._config, problem, action, tuple(self._told), seconds)


def _raw(message: Any) -> RawRecord:
    return RawRecord(
        partition=str(message.partition()),
        position=str(message.offset()),
        timestamp_millis=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
    )
