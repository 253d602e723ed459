"""What a topic still holds, by librdkafka's own brokers in this process."""

from __future__ import annotations

from confluent_kafka import Producer

from ds_dagster.catalog.reading.extent import Extent
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
