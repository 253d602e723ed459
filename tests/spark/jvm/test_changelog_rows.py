"""The rows of a changelog as a hand-over reads them from its topic, and what differs between two of them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from ds_dagster.engine.changelog_hand_over import differing, live_rows

pytestmark = [pytest.mark.spark, pytest.mark.servers]

Sent = tuple[str, str | None, int]
"""Key, value and partition; times are the places in the list."""


def topic(broker: Any, *records: Sent) -> str:
    name = broker.topic(2)
    producer = broker.producer()
    for time, (key, value, partition) in enumerate(records, 1):
        producer.produce(name, value and value.encode(), key=key.encode(), partition=partition, timestamp=time * 1000)
    assert producer.flush(30) == 0
    return name


def rows(frame: DataFrame) -> dict[str, str | None]:
    return {bytes(row.key).decode(): row.value and bytes(row.value).decode() for row in frame.collect()}


def test_the_newest_committed_record_of_each_key_counts(lab: Any, broker: Any) -> None:
    records = [("a", "1", 0), ("a", "2", 0), ("b", "1", 0), ("b", None, 0), ("c", "1", 1), ("c", "2", 0), ("e", "5", 1)]
    first = topic(broker, *records)
    writer = broker.producer(**{"transactional.id": f"open-{first}"})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(first, b"9", key=b"a", partition=0)
    assert writer.flush(30) == 0
    writer.abort_transaction(30)
    second = topic(broker, ("a", "2", 1), ("c", "3", 0), ("d", "4", 1), ("f", None, 0))
    before, after = (
        live_rows(lab.spark, {"topic": name, "kafka.bootstrap.servers": broker.address}) for name in (first, second)
    )
    assert rows(before) == {"a": "2", "b": None, "c": "2", "e": "5"}
    assert rows(differing(before, after)) == {"c": "3", "d": "4", "e": None}
    assert rows(differing(after, before)) == {"c": "2", "d": None, "e": "5"}
    assert not rows(differing(before, before))
