"""Writes repaired records back into a topic, in one transaction with notes that identify them.

The notes are in a compacted topic ``<topic>_redriven``. A sender takes the transactional id first: this fences an
earlier sender and aborts its open transaction, so the notes read afterwards are complete. Notes about records of
another store are stored in the same way, without the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def noted(admin: KafkaAdmin, name: str) -> Mapping[str, str]:
    """See ``catalog.redriving.KeepsNotes``: all committed notes."""
    topic = name + SENT_SUFFIX
    if admin.describe(topic) is None:
        return {}
    records = admin.records(topic, from_beginning=True, limit=1 << 62, stopped=lambda: False)
    return {record.key.decode(): (record.value or b"").decode() for record in records if record.key is not None}


class KafkaNotes:
    """See ``catalog.redriving.Notes``."""

    def __init__(self, admin: KafkaAdmin, name: str, like: str) -> None:
        from confluent_kafka import Producer

        self._admin, self._name = admin, name
        self._topic = name + SENT_SUFFIX
        counts = MappingProxyType({"topic.partitions": 1})
        admin.ensure(EntityPlan(self._topic, counts, SETTINGS, like=(admin.store, like), used_by="ds redrive"))
        transaction = f"ds-redrive~{name}"
        own = {"transactional.id": transaction, "partitioner": "murmur2_random", "linger.ms": 0}
        self._producer = admin._made(Producer, own)
        action = f"take the transactional id {transaction}"
        admin._translated(action, lambda: self._producer.init_transactions(CALL_SECONDS))

    def read(self) -> Mapping[str, str]:
        """See ``catalog.redriving.Notes``."""
        return noted(self._admin, self._name)

    def write(self, notes: Mapping[str, str]) -> None:
        """See ``catalog.redriving.Notes``."""

        def produce() -> None:
            for id_, text in notes.items():
                self._note(id_, text)

        self._transaction(produce, f"write notes into {self._topic}")

    def _note(self, id_: str, text: str) -> None:
        self._producer.produce(self._topic, value=text.encode(), key=id_.encode(), partition=0)
        self._producer.poll(0)

    def _transaction(self, produce: Callable[[], None], action: str) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
            produce()
            self._producer.commit_transaction(CALL_SECONDS)
        except (KafkaException, BufferError) as problem:
            with suppress(KafkaException):  # a later sender may have aborted it
                self._producer.abort_transaction(CALL_SECONDS)
            if isinstance(problem, BufferError):
                raise error("STORE_CALL_FAILED", store=self._admin.store, action="queue records") from problem
            raise self._admin._failure(problem.args[0], action) from problem

    def close(self) -> None:
        """Release the producer; the next owner of the id aborts an open transaction."""
        self._producer.flush(0)


class KafkaRedriver(KafkaNotes):
    """See ``catalog.redriving.Redriver``."""

    def __init__(self, admin: KafkaAdmin, topic: str) -> None:
        super().__init__(admin, topic, topic)

    def sent(self) -> frozenset[str]:
        """See ``catalog.redriving.Redriver``."""
        return frozenset(self.read())

    def send(self, records: Sequence[RepairedRecord]) -> None:
        """See ``catalog.redriving.Redriver``."""

        def produce() -> None:
            for record in records:
                self._produce(record)

        self._transaction(produce, f"send records into {self._name} again")

    def _produce(self, record: RepairedRecord) -> None:
        place = {} if record.partition is None else {"partition": int(record.partition)}
        if record.timestamp_millis is not None:
            place["timestamp"] = record.timestamp_millis
        self._producer.produce(self._name, value=record.value, key=record.key, **place)
        self._note(record.id, record.note)
