"""Aggregated records: taken apart exactly, whatever a batch, a restart or a split cuts through."""

from __future__ import annotations

import base64
import shutil
from collections import Counter

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_dagster.errors import UserError
from ds_dagster.kinesis_aggregates import (
    LAST_HASH,
    SHOWN_POSITION,
    HashRange,
    open_aggregate,
    read_position,
    shown_position,
)
from ds_dagster.spark.kinesis.decode import decode_records, has_aggregates, take_apart
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from tests.spark.kinesis.aggregates import MAGIC, aggregate, message, part, sealed

KEYS = st.text(min_size=1, max_size=12)
RECORDS = st.lists(st.tuples(KEYS, st.binary(max_size=40)), min_size=1, max_size=20)
HALF = LAST_HASH // 2


@settings(max_examples=100, derandomize=True, deadline=None)
@given(RECORDS)
def test_what_was_put_in_comes_out(records):
    assert list(open_aggregate(aggregate(records)) or ()) == records


def test_row_logs_write_positions_as_commands_do():
    places = [("49", 0), ("49", 1), ("50", 12)]
    texts = [shown_position(*place) for place in places]
    assert texts == ["49", "49.1", "50.12"]
    assert [read_position(text) for text in texts] == [(int(sequence), place) for sequence, place in places]
    values = ", ".join(f"('{sequence}', {place})" for sequence, place in places)
    query = f"SELECT {SHOWN_POSITION} FROM (VALUES {values}) AS r(sequence_number, sub_sequence_number)"
    assert [text for (text,) in duckdb.sql(query).fetchall()] == texts


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.binary(max_size=80))
def test_what_is_no_aggregate_stays_one_record(data):
    assert open_aggregate(data) is None
    assert open_aggregate(MAGIC + data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MAGIC,
        MAGIC + bytes(16),
        aggregate([("k", b"1")])[:-1] + b"\0",
        sealed(b"\xff\xff\xff"),
        sealed(message([("k", b"1")])[:-1]),
        sealed(part(1, b"key") + part(3, b"\x08\x05" + part(3, b"no such key"))),
        sealed(part(1, b"\xff\xfe") + part(3, b"\x08\x00" + part(3, b"key is no text"))),
        sealed(part(1, b"k") + part(2, b"no number") + part(3, b"\x08\x00\x10\x00" + part(3, b"x"))),
    ],
)
def test_damaged_aggregates_stay_one_record(data):
    assert open_aggregate(data) is None


def test_an_aggregate_that_went_to_a_wrong_shard_is_left_out_as_a_whole():
    low, high = HashRange(0, HALF), HashRange(HALF + 1, LAST_HASH)
    mixed = aggregate([("a", b"1", "5"), ("a", b"2", str(HALF + 1))])
    assert open_aggregate(mixed, low) == () and open_aggregate(mixed, high) == ()
    assert open_aggregate(mixed) == [("a", b"1"), ("a", b"2")]
    fits = aggregate([("a", b"1", "5"), ("b", b"2", str(HALF))])
    assert open_aggregate(fits, low) == [("a", b"1"), ("b", b"2")]
    by_key = aggregate([("k", b"1")])
    assert (open_aggregate(by_key, low) == ()) != (open_aggregate(by_key, high) == ()), "its MD5 decides"


def test_sub_records_become_rows_with_their_number():
    def raw(number: int, data: bytes) -> dict[str, object]:
        text = base64.b64encode(data).decode()
        return {"SequenceNumber": str(number), "PartitionKey": "p", "Data": text, "ApproximateArrivalTimestamp": 1.5}

    page = [raw(1, b"plain"), raw(2, aggregate([("a", b"x"), ("b", b"")])), raw(3, MAGIC + b"fake")]
    assert has_aggregates(page) and not has_aggregates(page[:1])
    batch = decode_records(take_apart(page, HashRange), "s")
    columns = ("sequence_number", "sub_sequence_number", "partition_key", "data")
    assert list(zip(*(batch.column(c).to_pylist() for c in columns), strict=True)) == [
        ("1", 0, "p", b"plain"),
        ("2", 0, "a", b"x"),
        ("2", 1, "b", b""),
        ("3", 0, "p", MAGIC + b"fake"),
    ]


# -- on a stream ----------------------------------------------------------------------------------------------------


def put_aggregates(stream, tools, first: int, count: int, size: int = 10) -> None:
    """The records ``first`` … of ``numbered`` in aggregates, between ordinary records of other keys."""
    for at in range(first, first + count, size):
        stream.put_one("outer", aggregate(tools.numbered(min(size, first + count - at), start=at)))


def values(rows) -> list[bytes]:
    return [row[3] for row in rows]


@pytest.mark.servers
def test_batches_and_restarts_cut_through_aggregates(stream, read_from, tools):
    put_aggregates(stream, tools, 0, 300)
    stream.put(tools.numbered(20, keys=1, start=300))
    put_aggregates(stream, tools, 320, 80)
    batches = read_from(stream, max_records=7)
    insides = 0

    def finished() -> bool:
        nonlocal insides
        if batches.step() and "sub" in batches.position[stream.name]["shardId-000000000000"]:
            insides += 1
            if insides % 5 == 0:
                batches.restart()
        return len(batches.rows) >= 400

    tools.eventually(finished, "all records")
    assert values(batches.rows) == [b"%08d" % i for i in range(400)], "nothing lost, doubled or out of order"
    assert insides > 20
    assert printed(stream) == values(batches.rows)


def printed(stream) -> list[bytes]:
    """Values as ``ds print`` shows them: read by boto3, taken apart by the store."""
    asked = stream.client.connection
    settings = {
        "region_name": asked.region,
        "endpoint_url": asked.endpoint_url,
        "aws_access_key_id": asked.access_key_id,
        "aws_secret_access_key": asked.secret_access_key,
    }
    records = KinesisAdmin("k", settings).records(
        stream.name, from_beginning=True, limit=1_000_000, stopped=lambda: False
    )
    return [record.value for record in records]


@pytest.mark.servers
@pytest.mark.parametrize("wiped", [True, False])
def test_a_planned_batch_inside_aggregates_is_read_again_exactly(stream, read_from, tools, wiped):
    put_aggregates(stream, tools, 0, 60)
    batches = read_from(stream, max_records=13)
    batches.until(13)
    start, end = batches.position, tools.eventually(batches.plan, "a planned batch")
    shard = "shardId-000000000000"
    assert (start[stream.name][shard]["sub"], end[stream.name][shard]["sub"]) == (2, 5)
    expected = batches.read(start, end)
    batches.crash()
    if wiped:
        shutil.rmtree(batches.options.spool)
    assert batches.read(start, end) == expected
    assert values(expected) == [b"%08d" % i for i in range(13, 26)]


@pytest.mark.servers
def test_a_closed_shard_that_ends_inside_an_aggregate(stream, read_from, tools):
    put_aggregates(stream, tools, 0, 20)
    stream.split()
    stream.put([("k0", b"after")])
    batches = read_from(stream, max_records=15)
    batches.until(15)
    batches.restart()
    assert values(batches.until(21)) == [*(b"%08d" % i for i in range(20)), b"after"]


@pytest.mark.servers
def test_the_rest_of_a_trimmed_aggregate_is_a_loss_whatever_the_notes_say(stream, proxy, read_from, tools):
    put_aggregates(stream, tools, 0, 10)
    batches = read_from(stream, proxy.url, max_records=4)
    batches.until(4)
    tools.eventually(lambda: batches.reader._prefetcher.sightings(), "the shard was seen at its end")
    batches.restart()

    def trimmed(operation, request, forward):
        status, answer = forward(request)
        return status, {**answer, "Records": []} if operation == "GetRecords" else answer

    proxy.hook = trimmed
    with pytest.raises(UserError, match="KINESIS_POSITION_TRIMMED"):
        tools.eventually(lambda: batches.step() is not None, "the failure")


@pytest.mark.servers
def test_what_the_producer_sent_to_a_split_shard_is_read_where_it_sends_it_again(new_stream, read_from, tools):
    stream = new_stream(2)
    low, high = ("a", b"low", "0"), ("b", b"high", str(LAST_HASH))

    def put(explicit: str, records) -> None:
        request = {"StreamName": stream.name, "PartitionKey": "x", "ExplicitHashKey": explicit}
        data = base64.b64encode(aggregate(records)).decode()
        stream.client.call("PutRecord", {**request, "Data": data})

    put("0", [low, high])
    put("0", [low])
    put(str(LAST_HASH), [high])
    stream.put([("plain", b"plain")])
    batches = read_from(stream)
    batches.until(3)
    assert batches.step() is None
    assert Counter(values(batches.rows)) == Counter([b"low", b"high", b"plain"])
