"""What a topic still holds, by librdkafka's own brokers in this process."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from ds_dagster.catalog.reading.extent import Extent, from_offsets
from ds_dagster.catalog.reading.starting import Offsets
from ds_dagster.errors import UserError
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.kafka.extents import extents


def test_offsets_and_the_first_record_of_each_partition() -> None:
    brokers = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    broker = next(iter(brokers.list_topics(timeout=30).brokers.values()))
    for number in range(30):
        brokers.produce("t", value=b"v" * 10, key=b"k", timestamp=1000 + number, partition=number % 2)
    assert brokers.flush(30) == 0
    admin = KafkaAdmin("k", {"bootstrap.servers": f"{broker.host}:{broker.port}"})
    try:
        there = extents(admin, "t", None)
    finally:
        admin.close()
    assert there["0"] == Extent(first=0, begin=0, end=15, first_time=1000, record_bytes=11)
    assert there["1"] == Extent(first=0, begin=0, end=15, first_time=1001, record_bytes=11)
    assert {there[part] for part in ("2", "3")} == {Extent(0, 0, 0)}


THERE = {"0": Extent(0, 0, 15), "1": Extent(5, 5, 9), "10": Extent(0, 0, 0)}


def test_named_partitions_begin_at_their_offsets_the_others_with_their_oldest_record() -> None:
    """The end is the next record."""
    begun = from_offsets("k.t", THERE, ((0, 15), (1, 3), (10, 0)), "skip")
    assert {name: extent.begin for name, extent in begun.items()} == {"0": 15, "1": 5, "10": 0}
    assert from_offsets("k.t", THERE, ((0, 4),)) == {**THERE, "0": Extent(0, 4, 15)}
    assert from_offsets("k.t", THERE, ()) == THERE


@pytest.mark.parametrize(
    ("offsets", "condition", "words"),
    [
        (((0, 16),), "STARTING_OFFSET_BEYOND_END", ("k.t", "partition 0", "at 16", "ends at 15", "0:15")),
        (((0, 1), (10, 1)), "STARTING_OFFSET_BEYOND_END", ("partition 10", "10:0")),
        (((1, 4),), "STARTING_OFFSET_GONE", ("partition 1", "at 4", "record is 5", "1:5", "'source.data.loss' = skip")),
        (((0, 1), (2, 0)), "STARTING_PARTITION_UNKNOWN", ("k.t has no partition 2", "0, 1, 10")),
    ],
)
def test_offsets_that_are_not_there_are_refused(offsets: Offsets, condition: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as refused:
        from_offsets("k.t", THERE, offsets)
    assert refused.value.condition == condition
    assert all(word in f"{refused.value.message} {refused.value.hint}" for word in words), refused.value
