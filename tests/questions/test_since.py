"""Where a question to a stream begins when its relation names a moment."""

from __future__ import annotations

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.questions.following import since


def test_each_partition_begins_with_its_first_record_of_the_moment() -> None:
    times = [("0", 5), ("1", 5), ("0", 10), ("0", 7), ("1", 6), ("1", 12), ("0", 3)]
    records = [RawRecord(partition, str(at), at, None, None) for partition, at in times]
    assert [(r.partition, r.timestamp_millis) for r in since(iter(records), 10)] == [
        ("0", 10),
        ("0", 7),
        ("1", 12),
        ("0", 3),
    ]
    assert list(since(iter(records), None)) == records
