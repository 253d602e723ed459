"""Lag of a reader of a topic: two batched requests for the ends, one record of each partition that lags."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.reading.lag import SourceLag
from ds_dagster.stores.repeating import repeated

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

FETCH_SECONDS = 5.0
POLL_SECONDS = 0.2
FETCH_BYTES = 65_536
"""Most bytes of one partition in a fetch; a broker sends at least one batch of records, even if it is larger."""
CONSUMER: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.message.max.bytes": FETCH_BYTES,
    "queued.max.messages.kbytes": 1024,
    "fetch.wait.max.ms": 100,
}
"""Settings of a client that looks at one record at a time."""
WITHOUT_LEADER = frozenset({"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"})
"""Errors that pass when a leader is chosen or known."""


def ends_of(admin: Any, topic: str, partitions: list[int], seconds: float) -> Mapping[int, tuple[int, int]]:
    """Partition → (first available offset, end of committed records)."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    specs: Any = OffsetSpec
    ends = []
    for spec in (specs.earliest(), specs.latest()):
        requests = {TopicPartition(topic, number): spec for number in partitions}
        answers = admin.list_offsets(requests, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=seconds)
        ends.append({part.partition: answer.result(2 * seconds).offset for part, answer in answers.items()})
    first, last = ends
    return {number: (first[number], last[number]) for number in partitions}


def watermarks(consumer: Any, part: TopicPartition, seconds: float) -> tuple[int, int]:
    """First available offset and end of a partition. A partition without a leader, as in a new topic, is retried for
    about three seconds."""
    low, high = repeated(lambda: consumer.get_watermark_offsets(part, timeout=seconds), _has_no_leader, 10, 0.5)
    return low, high


def begins_since(consumer: Any, parts: Sequence[TopicPartition], since: int, seconds: float) -> Mapping[int, int]:
    """Partition → offset of its first record written at or after a moment (epoch ms); without partitions that have no
    such record."""
    from confluent_kafka import TopicPartition

    moments = [TopicPartition(part.topic, part.partition, since) for part in parts]
    return {part.partition: part.offset for part in consumer.offsets_for_times(moments, seconds) if part.offset >= 0}


def _has_no_leader(problem: BaseException) -> bool:
    names = {getattr(argument, "name", str)() for argument in problem.args}
    return bool(names & WITHOUT_LEADER)


def lag_of(consumer: Any, topic: str, ends: Mapping[int, tuple[int, int]], positions: Mapping[str, int]) -> SourceLag:
    """Number of records between the positions and the ends, and the timestamp (epoch ms) of the oldest of them.

    Offsets of transaction markers and of records that were compacted away count as records.
    """
    from confluent_kafka import TopicPartition

    begins = {number: max(positions.get(str(number), first), first) for number, (first, _) in ends.items()}
    behind = {number: ends[number][1] - begin for number, begin in begins.items() if ends[number][1] > begin}
    oldest = _oldest(consumer, [TopicPartition(topic, number, begins[number]) for number in behind], ends)
    return SourceLag(sum(behind.values()), oldest)


def _oldest(consumer: Any, parts: list[TopicPartition], ends: Mapping[int, tuple[int, int]]) -> int | None:
    """Least timestamp of the first records after the offsets; None if no record comes within :data:`FETCH_SECONDS`.

    Partitions that have only markers after their offset end without a record. Errors of the connection are reported by
    the requests around this one.
    """
    if not parts:
        return None
    waiting = {part.partition for part in parts}
    times: list[int] = []
    consumer.assign(parts)
    end = time.monotonic() + FETCH_SECONDS
    try:
        while waiting and time.monotonic() < end:
            message = consumer.poll(POLL_SECONDS)
            if message is None or message.partition() not in waiting:
                continue
            if message.error() is None:
                times += [message.timestamp()[1]] if message.offset() < ends[message.partition()][1] else []
                waiting.discard(message.partition())
            elif message.error().name() == "_PARTITION_EOF":
                waiting.discard(message.partition())
    finally:
        consumer.unassign()
    return min(times, default=None)
