# ruff: noqa: E501, F811 - statements stay on one line; fixtures come from the suite of streaming sinks
"""Kinesis under stress, in real queries: shards that change, aggregated records, streams that end. boto3 is the oracle."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from ds_dagster.catalog.reading.extent import check_offsets
from ds_dagster.errors import DsError
from ds_dagster.spark.queries import query as face
from tests.conformance.test_streaming_sinks import KAFKA_COUNTS, World, servers, world  # noqa: F401
from tests.spark.kinesis.aggregates import aggregate

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
EVENTS = """CREATE STREAM events_{id} (id BIGINT, k VARCHAR)
  WITH ('store' = 'n', 'topic' = 'events_{id}', 'value.format' = 'json', 'topic.shards' = 2);"""


class Stream:
    """One stream by boto3 alone."""

    def __init__(self, world: World, entity: str) -> None:
        self.name = f"{entity}_{world.id}"
        self.client = boto3.client(
            "kinesis", endpoint_url=world.servers.kinesis, region_name=world.servers.region,
            aws_access_key_id="local", aws_secret_access_key="local",
        )  # fmt: skip
        self.sent = 0

    def event(self, keys: int = 5) -> tuple[str, bytes]:
        number, self.sent = self.sent, self.sent + 1
        return f"k{number % keys}", json.dumps({"id": number, "k": f"k{number % keys}"}).encode()

    def send(self, count: int) -> None:
        """Ordinary records and aggregates in turns."""
        for _ in range(0, count, 20):
            plain = [self.event() for _ in range(10)]
            for key, data in plain:
                self.client.put_record(StreamName=self.name, PartitionKey=key, Data=data)
            inside = [self.event() for _ in range(10)]
            by_key = [[record for record in inside if record[0] == key] for key in dict.fromkeys(k for k, _ in inside)]
            for records in by_key:  # of one shard each, as their producer makes them
                self.client.put_record(StreamName=self.name, PartitionKey=records[0][0], Data=aggregate(records))

    def open_shards(self) -> list[dict[str, Any]]:
        shards = self.client.list_shards(StreamName=self.name)["Shards"]
        found = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        return sorted(found, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))

    def split(self) -> None:
        shard = self.open_shards()[0]
        first, last = (int(shard["HashKeyRange"][end]) for end in ("StartingHashKey", "EndingHashKey"))
        half = str((first + last) // 2)
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=half)
        self.active()

    def merge(self) -> None:
        one, other = self.open_shards()[:2]
        self.client.merge_shards(
            StreamName=self.name, ShardToMerge=one["ShardId"], AdjacentShardToMerge=other["ShardId"]
        )
        self.active()

    def active(self) -> None:
        ends = time.monotonic() + 30
        while self.client.describe_stream(StreamName=self.name)["StreamDescription"]["StreamStatus"] != "ACTIVE":
            assert time.monotonic() < ends
            time.sleep(0.05)

    def recreate(self) -> None:
        before = self.created()
        while self.created() == before:  # this server keeps whole seconds
            self.client.delete_stream(StreamName=self.name)
            self.client.get_waiter("stream_not_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})
            self.client.create_stream(StreamName=self.name, ShardCount=2)
            self.active()

    def created(self) -> object:
        return self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"][
            "StreamCreationTimestamp"
        ]

    def read(self) -> list[tuple[str, bytes]]:
        """(key, data) of all shards."""
        found: list[tuple[str, bytes]] = []
        for shard in self.client.list_shards(StreamName=self.name)["Shards"]:
            begin = {"StreamName": self.name, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self.client.get_shard_iterator(**begin)["ShardIterator"]
            while iterator:
                page = self.client.get_records(ShardIterator=iterator)
                found += [(record["PartitionKey"], record["Data"]) for record in page["Records"]]
                iterator = page.get("NextShardIterator") if page["Records"] or page["MillisBehindLatest"] else None
        return found


@pytest.fixture
def stream(world: World) -> Iterator[Stream]:
    made = Stream(world, "events")
    yield made
    made.client.close()


@pytest.mark.slow
def test_aggregates_and_changing_shards_reach_kafka_once_over_restarts(world: World, stream: Stream) -> None:
    sink = KAFKA_COUNTS.replace("= 2", "= 1")
    world.compile(EVENTS + f"CREATE STREAM out_{{id}} WITH ('store' = 'k', {sink}) AS SELECT id, k FROM events_{{id}};")
    world.start("out")
    for reshard in (stream.split, stream.merge, stream.split):
        stream.send(100)
        reshard()
        stream.send(100)
        world.wait(lambda: len(world.read("k", "out")) >= stream.sent)
        world.stop()
        stream.send(40)
        world.start("out")
    world.wait(lambda: len(world.read("k", "out")) >= stream.sent)
    rows = [value for _, value in world.read("k", "out")]
    assert Counter(row["id"] for row in rows) == Counter(range(stream.sent)), "nothing lost, nothing doubled"
    for key in {row["k"] for row in rows}:
        ids = [row["id"] for row in rows if row["k"] == key]
        plain = [number for number in ids if number % 20 < 10]
        inside = [number for number in ids if number % 20 >= 10]
        assert plain == sorted(plain) and inside == sorted(inside)


@pytest.mark.slow
def test_a_changelog_goes_through_changing_shards_of_its_sink(world: World, stream: Stream) -> None:
    world.compile(
        EVENTS
        + "CREATE CHANGELOG counts_{id} WITH ('store' = 'n') AS SELECT k, COUNT(*) AS n FROM events_{id} GROUP BY k;"
    )
    sink = Stream(world, "counts")
    assert len(sink.open_shards()) == 2, "as many as its source"
    query = world.start("counts")
    for reshard in (sink.split, sink.merge):
        stream.send(60)
        reshard()
        stream.send(60)
    expected = {f"k{n}": stream.sent // 5 for n in range(5)}
    world.wait(lambda: last(sink) == expected)
    world.stop()
    assert query.exception() is None
    sink.client.close()


def last(sink: Stream) -> dict[str, int]:
    """The newest count of every key: counts only grow, and a key's records keep their order."""
    counts: dict[str, int] = {}
    for _, data in sink.read():
        row = json.loads(data)
        counts[row["k"]] = max(row["n"], counts.get(row["k"], 0))
    return counts


def test_a_stream_that_was_created_again_is_noticed(world: World, stream: Stream) -> None:
    world.compile(
        EVENTS + f"CREATE STREAM out_{{id}} WITH ('store' = 'k', {KAFKA_COUNTS}) AS SELECT id FROM events_{{id}};"
    )
    stream.send(20)
    assert world.start("out", "available_now").awaitTermination(120)
    world.stop()
    stream.recreate()
    with pytest.raises(DsError) as problem:
        world.start("out", "available_now")
    assert (problem.value.condition, problem.value.fault.hint) == ("INPUT_RECREATED", "never")


def test_a_query_begins_at_a_moment_and_tells_its_lag(world: World, stream: Stream) -> None:
    begin = "'starting.position' = timestamp, 'starting.timestamp' = 9999999999999"
    sql = (
        EVENTS
        + f"CREATE STREAM out_{{id}} WITH ('store' = 'k', {KAFKA_COUNTS}) AS SELECT id FROM events_{{id}} WITH ({begin});"
    )
    world.compile(sql)
    stream.send(40)
    middle = stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=stream.event()[1])
    begin_iterator = stream.client.get_shard_iterator(
        StreamName=stream.name, ShardId=middle["ShardId"], ShardIteratorType="AT_SEQUENCE_NUMBER",
        StartingSequenceNumber=middle["SequenceNumber"],
    )["ShardIterator"]  # fmt: skip
    arrived = stream.client.get_records(ShardIterator=begin_iterator)["Records"][0]["ApproximateArrivalTimestamp"]
    stream.send(40)
    moment = int(arrived.timestamp() * 1000)
    assert world.project is not None
    world.compile(sql.replace("9999999999999", str(moment)))
    query = world.start("out")
    world.wait(lambda: len(world.read("k", "out")) >= 41)
    assert sorted(value["id"] for _, value in world.read("k", "out")) == list(range(40, 81))
    world.wait(lambda: face.progress(query) is not None and face.progress(query).lag_records == 0)
    found = face.progress(query)
    assert found is not None and (found.lag_seconds, found.lost_records) == (0.0, 0)


WRONG_STARTS = (
    ("1:{between}", "STARTING_OFFSET_UNKNOWN"),
    ("0:{begin}", "STARTING_OFFSET_UNKNOWN"),
    ("1:{begin},7:5", "STARTING_PARTITION_UNKNOWN"),
)


def test_a_query_begins_at_sequence_numbers(world: World, stream: Stream) -> None:
    """Two shards: one begins at a number, the other with its oldest record. A number that no shard has ends the first
    start, a restart goes on from the checkpoint."""
    world.compile(EVENTS)
    places: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    while min(map(len, places.values())) < 4:
        key, data = stream.event(keys=40)
        answer = stream.client.put_record(StreamName=stream.name, PartitionKey=key, Data=data)
        places[int(answer["ShardId"][-12:])].append((json.loads(data)["id"], answer["SequenceNumber"]))
    sql = (
        EVENTS
        + f"CREATE STREAM out_{{id}} WITH ('store' = 'k', {KAFKA_COUNTS}) AS SELECT id FROM events_{{id}}"
        + " WITH ('starting.position' = offsets, 'starting.offsets' = '%s');"
    )
    begin = places[1][2][1]
    for wrong, condition in WRONG_STARTS:
        world.compile(sql % wrong.format(begin=begin, between=int(begin) + 1))
        assert world.project is not None
        (scan,) = world.project.queries[f"out_{world.id}"].scans
        with pytest.raises(DsError) as problem:
            check_offsets("n.events", world.admin("n").operations(), stream.name, scan.starting_offsets)
        assert problem.value.condition == condition, wrong
    world.compile(sql % f"1:{begin}")
    assert world.start("out", "available_now").awaitTermination(120)
    world.stop()
    expected = sorted(number for number, _ in [*places[0], *places[1][2:]])
    assert sorted(value["id"] for _, value in world.read("k", "out")) == expected
    before = stream.sent
    stream.send(40)
    assert world.start("out", "available_now").awaitTermination(120)
    world.stop()
    found = sorted(value["id"] for _, value in world.read("k", "out"))
    assert found == [*expected, *range(before, before + 40)], "the rows after a restart"


NUMBERED = """
CREATE CHANGELOG users_{id} (userid BIGINT, name VARCHAR, PRIMARY KEY (userid)) WITH ('store' = 'n',
  'topic' = 'users_{id}', 'value.format' = 'json', 'key.format' = 'primitive', 'key.type' = 'BIGINT', 'topic.shards' = 1);
CREATE CHANGELOG copy_{id} WITH ('store' = 'n', 'key.format' = 'primitive') AS SELECT userid, name FROM users_{id};
CREATE STREAM versions_{id} (userid BIGINT, name VARCHAR) WITH ('store' = 'n', 'topic' = 'copy_{id}',
  'value.format' = 'json', 'key.format' = 'primitive', 'key.columns' = 'userid',
  'value.columns.exclude' = 'userid', 'topic.shards' = 1);
"""


def test_a_number_is_a_key_by_its_text(world: World) -> None:
    """A partition key has no bytes: written as text, and read so, in deletes and where the column is in the key alone."""
    texts = f"CREATE STREAM out_{{id}} WITH ('store' = 'k', {KAFKA_COUNTS}) AS SELECT userid, name, rowkey() AS k FROM versions_{{id}};"
    world.compile(NUMBERED + texts)
    users, copy = Stream(world, "users"), Stream(world, "copy")
    for key, name in (("-7", "a"), ("70000000000", "b"), ("-7", None)):
        data = b"" if name is None else json.dumps({"userid": int(key), "name": name}).encode()
        users.client.put_record(StreamName=users.name, PartitionKey=key, Data=data)
    assert world.start("copy", "available_now").awaitTermination(120)
    world.stop()
    written = [(key, json.loads(data) if data else None) for key, data in copy.read()]
    assert (("-7", None) in written, written[0][0] in ("-7", "70000000000")) == (True, True)
    assert ("70000000000", {"userid": 70_000_000_000, "name": "b"}) in written
    assert world.start("out", "available_now").awaitTermination(120)
    world.stop()
    found = {(row["k"], row["userid"], row["name"]) for _, row in world.read("k", "out")}
    assert ("70000000000", 70_000_000_000, "b") in found and all(int(key) == number for key, number, _ in found)
    users.client.close()
    copy.client.close()
