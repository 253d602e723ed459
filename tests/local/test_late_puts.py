"""The local Kinesis server gives every record to a reader that polls while the record is stored."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from ds_dagster import local
from ds_dagster.local import kinesis

pytestmark = pytest.mark.servers
SLOW_STORE = Path(__file__).parent / "slow_store.js"


def test_the_first_record_of_a_stream_is_not_skipped(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the number of the iterator from TRIM_HORIZON, which every empty answer moves on to the time of its
    request. The server stores the record more than a second after it gave it its own time."""
    monkeypatch.setattr(kinesis, "PRELOADED", (*kinesis.PRELOADED, SLOW_STORE))
    addresses = local.up(state, only=["kinesis"])
    secrets = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    client = boto3.client("kinesis", endpoint_url=addresses.kinesis, region_name=addresses.region, **secrets)
    client.create_stream(StreamName="s", ShardCount=1)
    client.get_waiter("stream_exists").wait(StreamName="s", WaiterConfig={"Delay": 1})
    where = {"StreamName": "s", "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(**where)["ShardIterator"]
    received: list[bytes] = []
    with ThreadPoolExecutor(1) as threads:
        put = threads.submit(client.put_records, StreamName="s", Records=[{"Data": b"first", "PartitionKey": "k"}])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not received:
            is_stored = put.done()
            answer = client.get_records(ShardIterator=iterator)
            iterator = answer["NextShardIterator"]
            received += [record["Data"] for record in answer["Records"]]
            if is_stored:
                break
    assert received == [b"first"]
