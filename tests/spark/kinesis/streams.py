"""Streams of tests: created, written and read with boto3, never with the connector under test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import boto3

from ds_dagster.spark.kinesis.options import Connection

WAIT = {"Delay": 1, "MaxAttempts": 60}
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Written:
    """One record as the service returns it. ``arrived``: epoch milliseconds; empty ``data`` deletes the key."""

    shard: str
    sequence_number: str
    partition_key: str
    data: bytes
    arrived: int


@lru_cache(maxsize=8)
def api(connection: Connection) -> Any:
    """boto3's client for the same endpoint and keys."""
    return boto3.client(
        "kinesis",
        region_name=connection.region,
        endpoint_url=connection.endpoint_url,
        aws_access_key_id=connection.access_key_id,
        aws_secret_access_key=connection.secret_access_key,
    )


def status(connection: Connection, name: str) -> str:
    """State of a stream as in the API; ABSENT if there is none."""
    client = api(connection)
    try:
        return str(client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"])
    except client.exceptions.ResourceNotFoundException:
        return "ABSENT"


def await_status(connection: Connection, name: str, wanted: str, seconds: float = 60.0) -> None:
    """Wait until a stream is ACTIVE, or ABSENT."""
    deadline = time.monotonic() + seconds
    while (state := status(connection, name)) != wanted:
        assert time.monotonic() < deadline, f"{name} is {state}, not {wanted}"
        time.sleep(POLL_SECONDS)


def create_stream(connection: Connection, name: str, shards: int) -> None:
    """Create a stream and wait until it is active."""
    api(connection).create_stream(StreamName=name, ShardCount=shards)
    await_status(connection, name, "ACTIVE")


def delete_stream(connection: Connection, name: str) -> None:
    """Delete a stream, if there is one, and wait until it is gone."""
    if status(connection, name) != "ABSENT":
        api(connection).delete_stream(StreamName=name)
        await_status(connection, name, "ABSENT")


def put_record(connection: Connection, name: str, key: str, data: bytes) -> str:
    """Write one record; its sequence number."""
    return str(api(connection).put_record(StreamName=name, PartitionKey=key, Data=data)["SequenceNumber"])


def read_records(connection: Connection, name: str) -> list[Written]:
    """All records, shard by shard in the order of their creation: parents before children."""
    shards = api(connection).list_shards(StreamName=name)["Shards"]
    return [record for shard in shards for record in _of_shard(connection, name, shard["ShardId"])]


def _of_shard(connection: Connection, name: str, shard: str) -> Iterator[Written]:
    client = api(connection)
    first = client.get_shard_iterator(StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    iterator = first["ShardIterator"]
    while iterator:
        page = client.get_records(ShardIterator=iterator)
        for record in page["Records"]:
            arrived = int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
            yield Written(shard, record["SequenceNumber"], record["PartitionKey"], record["Data"], arrived)
        iterator = page.get("NextShardIterator") if page["Records"] or page["MillisBehindLatest"] else None
