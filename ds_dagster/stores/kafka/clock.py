"""The clock of the brokers, from the timestamps of topics with ``LogAppendTime``: the protocol has no request for
it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.reading.skew import ClockSkew

if TYPE_CHECKING:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

LOOK_SECONDS = 1.5
"""How long to wait for new records: only their timestamps show by how much this machine's clock is ahead."""
POLL_SECONDS = 0.2
CALL_SECONDS = 10.0

Newest = Callable[[], Mapping[tuple[str, int], tuple[int, float]]]
"""(topic, partition) → offset and stamp (epoch seconds) of the record with the newest stamp."""


def compared(
    newest: Newest,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> ClockSkew:
    """Compare this machine's clock with the brokers'.

    A record in a look was stamped before the look ended: we are ahead by at most (end of the look - stamp). If the look
    before does not have it, it was stamped after that look began: we are ahead by at least (begin of that look -
        stamp).

    Args:
        newest: takes one look.
        clock, sleep: of this machine, seconds.
    """
    began = clock()
    first = before = newest()
    at_most = min((clock() - stamp for _, stamp in first.values()), default=None)
    at_least: float | None = None
    end = began + LOOK_SECONDS
    while at_least is None and clock() < end:
        sleep(POLL_SECONDS)
        look_began = clock()
        stamps = newest()
        look_ended = clock()
        new = [stamp for place, (offset, stamp) in stamps.items() if offset > before.get(place, (-1, 0.0))[0]]
        for stamp in new:
            at_least = max(began - stamp, began - stamp if at_least is None else at_least)
            at_most = look_ended - stamp if at_most is None else min(at_most, look_ended - stamp)
        began, before = look_began, stamps
    return ClockSkew(at_least, at_most)


def skew_of(admin: KafkaAdmin, topics: Sequence[str]) -> ClockSkew | None:
    """Compare clocks by those of the topics whose records the brokers stamp; None without such a topic.

    Raises:
        DsError: the brokers refuse a request.
    """
    from confluent_kafka import KafkaException

    facts = {
        name: facts_of_topic
        for name in topics
        if (facts_of_topic := admin.describe(name)) and facts_of_topic.record_time == "broker"
    }
    if not facts:
        return None
    partitions = {name: range(topic_facts.counts["topic.partitions"]) for name, topic_facts in facts.items()}
    try:
        return compared(_newest(admin._admin(), partitions))
    except KafkaException as problem:
        raise admin._failure(problem.args[0], "read the newest stamps") from problem


def _newest(admin: Any, partitions: Mapping[str, range]) -> Newest:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    spec: Any = OffsetSpec
    places = {TopicPartition(name, n): spec.max_timestamp() for name, numbers in partitions.items() for n in numbers}

    def look() -> Mapping[tuple[str, int], tuple[int, float]]:
        answers = admin.list_offsets(places, request_timeout=CALL_SECONDS)
        offsets = {(part.topic, part.partition): answer.result(2 * CALL_SECONDS) for part, answer in answers.items()}
        return {
            place: (offset.offset, offset.timestamp / 1000) for place, offset in offsets.items() if offset.offset >= 0
        }

    return look
