"""Where a question to a stream begins when its relation names a moment or offsets."""

from __future__ import annotations

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.questions.following import since, since_offsets


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


def test_named_partitions_begin_at_their_offsets() -> None:
    places = [("0", 4), ("10", 0), ("0", 5), ("1", 0), ("0", 6), ("10", 1)]
    records = [RawRecord(partition, str(offset), 0, None, None) for partition, offset in places]
    found = [(r.partition, int(r.position)) for r in since_offsets(iter(records), ((0, 5), (10, 1)))]
    assert found == [("0", 5), ("1", 0), ("0", 6), ("10", 1)]
    assert list(since_offsets(iter(records), ())) == records


def test_shards_are_named_by_their_numbers() -> None:
    places = [(1, "98"), (1, "99/0"), (1, "99/1"), (2, "1"), (1, "100")]
    records = [RawRecord(f"shardId-{shard:012d}", position, 0, None, None) for shard, position in places]
    assert [r.position for r in since_offsets(iter(records), ((1, 99),))] == ["99/0", "99/1", "1", "100"]
