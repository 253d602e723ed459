"""Repaired records go back into a topic in one transaction with the notes that say which ones they were.

The notes are in a compacted topic ``<topic>_redriven``. Whoever sends takes the transactional id first: that fences an
earlier sender and aborts what it left open, so the notes that are read afterwards are all there will ever be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.redriving import SENT_SUFFIX, RepairedRecord
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

CALL_SECONDS = 30.0
SETTINGS = MappingProxyType({"cleanup.policy": "compact"})


def noted(admin: KafkaAdmin, topic: str) -> frozenset[str]:
    """The ids of all committed notes of a topic."""
    notes = topic + SENT_SUFFIX
    if admin.describe(notes) is None:
        return frozenset()
    records = admin.records(notes, from_beginning=True, limit=1 << 62, stopped=lambda: False)
    return frozenset(record.key.decode() for record in records if record.key is not None)


class KafkaRedriver:
    """See ``catalog.redriving.Redriver``."""

    def __init__(self, admin: KafkaAdmin, topic: str) -> None:
        from confluent_kafka import Producer

        self._admin, self._topic = admin, topic
        self._notes = topic + SENT_SUFFIX
        counts = MappingProxyType({"topic.partitions": 1})
        admin.ensure(EntityPlan(self._notes, counts, SETTINGS, like=(admin.store, topic), used_by="ds redrive"))
        transaction = f"ds-redrive~{topic}"
        own = {"transactional.id": transaction, "partitioner": "murmur2_random", "linger.ms": 0}
        self._producer = admin._made(Producer, own)
        action = f"take the transactional id {transaction}"
        admin._translated(action, lambda: self._producer.init_transactions(CALL_SECONDS))

    def sent(self) -> frozenset[str]:
        """See ``catalog.redriving.Redriver``."""
        return noted(self._admin, self._topic)

    def send(self, records: Sequence[RepairedRecord]) -> None:
        """See ``catalog.redriving.Redriver``."""
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
            self._producer.commit_transaction(CALL_SECONDS)
        except (KafkaException, BufferError) as problem:
            with suppress(KafkaException):  # a later sender may have aborted it
                self._producer.abort_transaction(CALL_SECONDS)
            if isinstance(problem, BufferError):
                raise error("STORE_CALL_FAILED", store=self._admin.store, action="queue records") from problem
            raise self._admin._failure(problem.args[0], f"send records into {self._topic} again") from problem

    def _produce(self, record: RepairedRecord) -> None:
        place = {} if record.partition is None else {"partition": int(record.partition)}
        if record.timestamp_millis is not None:
            place["timestamp"] = record.timestamp_millis
        self._producer.produce(self._topic, value=record.value, key=record.key, **place)
        self._producer.produce(self._notes, value=record.note.encode(), key=record.id.encode(), partition=0)
        self._producer.poll(0)

    def close(self) -> None:
        """An open transaction ends with the id's next owner."""
        self._producer.flush(0)
