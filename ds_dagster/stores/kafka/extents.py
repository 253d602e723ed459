"""Extent of a topic by partition: first and last offset, the offset of a moment, and the first record."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.stores.kafka.lag import CONSUMER, FETCH_SECONDS, POLL_SECONDS, begins_since, ends_of

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from ds_dagster.stores.kafka.admin import KafkaAdmin

CALL_SECONDS = 10.0


def extents(admin: KafkaAdmin, topic: str, since: int | None) -> Mapping[str, Extent]:
    """See ``catalog.reading.extent.TellsExtents``."""
    parts = admin._partitions(topic)
    numbers = [part.partition for part in parts]
    action = f"look for the records of {topic}"
    ends = admin._translated(action, lambda: ends_of(admin._admin(), topic, numbers, CALL_SECONDS))
    consumer = admin._consumer(CONSUMER)
    try:
        moments = {number: first for number, (first, _) in ends.items()}
        if since is not None:
            answers = admin._translated(action, lambda: begins_since(consumer, parts, since, CALL_SECONDS))
            moments = {number: answers.get(number, last) for number, (_, last) in ends.items()}
        firsts = _first_records(consumer, parts, ends)
    finally:
        consumer.close()
    return {
        str(number): Extent(first, min(moments[number], last), last, *firsts.get(number, (None, 0)))
        for number, (first, last) in ends.items()
    }


def _first_records(
    consumer: Any, parts: Sequence[TopicPartition], ends: Mapping[int, tuple[int, int]]
) -> Mapping[int, tuple[int, int]]:
    """Partition → timestamp (epoch ms) and size (bytes) of its first record; without partitions that have no record, or
    only transaction markers."""
    from confluent_kafka import TopicPartition

    waiting = {number for number, (first, last) in ends.items() if last > first}
    records: dict[int, tuple[int, int]] = {}
    consumer.assign([TopicPartition(p.topic, p.partition, ends[p.partition][0]) for p in parts])
    limit = time.monotonic() + FETCH_SECONDS
    while waiting and time.monotonic() < limit:
        message = consumer.poll(POLL_SECONDS)
        if message is None or message.partition() not in waiting:
            continue
        if message.error() is None:
            size = len(message.key() or b"") + len(message.value() or b"")
            records[message.partition()] = (message.timestamp()[1], size)
        waiting.discard(message.partition())
    return records
