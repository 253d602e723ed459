"""Records of a topic by partition and offset."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

NEAR = 10_000
"""Largest gap of offsets that is read through; over a larger gap the consumer seeks."""
SILENT_SECONDS = 30.0


def find(admin: KafkaAdmin, topic: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
    """See ``catalog.redriving.FindsRecords``; committed records only."""
    wanted: dict[int, set[int]] = {}
    for partition, offset in places:
        wanted.setdefault(int(partition), set()).add(int(offset))
    records: dict[tuple[str, str], RawRecord] = {}
    consumer = admin._consumer()
    try:
        for part in admin._partitions(topic):
            low, high = admin._watermarks(consumer, part)
            inside = sorted(offset for offset in wanted.get(part.partition, ()) if low <= offset < high)
            for run in _runs(inside):
                for record in _read(admin, consumer, part, run):
                    records[record.partition, record.position] = record
    finally:
        consumer.close()
    return records


def _runs(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ascending offsets, divided at large gaps."""
    begin = 0
    for number in range(1, len(offsets) + 1):
        if number == len(offsets) or offsets[number] - offsets[number - 1] > NEAR:
            yield offsets[begin:number]
            begin = number


def _read(admin: KafkaAdmin, consumer: Any, part: Any, run: Sequence[int]) -> Iterator[RawRecord]:
    """The records at these offsets, read in one pass; an offset whose record is gone yields none.

    Raises:
        ExternalError: STORE_CALL_FAILED after :data:`SILENT_SECONDS` without a record.
    """
    from confluent_kafka import TopicPartition

    wanted, last_record = {str(offset) for offset in run}, time.monotonic()

    def is_silent() -> bool:
        return time.monotonic() - last_record > SILENT_SECONDS

    consumer.assign([TopicPartition(part.topic, part.partition, run[0])])
    for record in admin._polled(consumer, part.topic, {part.partition: run[-1] + 1}, None, is_silent):
        last_record = time.monotonic()
        if record.position in wanted:
            yield record
    if is_silent():
        action = f"read records of {part.topic} by their offsets"
        raise error("STORE_CALL_FAILED", store=admin.store, action=action)
