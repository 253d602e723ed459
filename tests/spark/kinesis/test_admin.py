"""Streams as a store sees them, against a real Kinesis API."""

from __future__ import annotations

import threading

import pytest

from ds_dagster.errors import ExternalError, UserError
from ds_dagster.spark.kinesis import admin
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.options import Connection
from ds_dagster.spark.kinesis.timing import RetryPolicy

pytestmark = pytest.mark.servers


@pytest.fixture
def client(kinesalite, tools):
    opened = admin.open_client(tools.connection_to(kinesalite))
    yield opened
    opened.close()


def test_life_of_a_stream(client):
    name = "life-of-a-stream"
    assert admin.find_stream(client, name) is None
    assert admin.create_stream(client, name, 3, retention_hours=48)
    assert not admin.create_stream(client, name, 5), "it exists, and keeps its shards"
    assert admin.shard_count(client, name) == 3
    assert admin.find_stream(client, name) == admin.StreamInfo(name, "ACTIVE", 3, 48)
    assert name in admin.list_streams(client)
    assert admin.delete_stream(client, name)
    assert not admin.delete_stream(client, name)
    with pytest.raises(UserError, match="KINESIS_STREAM_NOT_FOUND"):
        admin.shard_count(client, name)
    with pytest.raises(ExternalError, match="ABSENT"):
        admin.wait_active(client, name, 0.0)


def test_open_shards_are_counted_after_a_split(stream):
    stream.split()
    assert admin.shard_count(stream.client, stream.name) == 2


def test_put_and_look(stream):
    first = admin.put_record(stream.client, stream.name, '{"userid":"u1"}', b'{"a":1}')
    admin.put_record(stream.client, stream.name, '{"userid":"u1"}', b"")
    seen = list(admin.read_records(stream.client, stream.name))
    assert (seen[0].sequence_number, seen[0].data) == (first, b'{"a":1}')
    assert seen[1].data == b"" and seen[1].partition_key == '{"userid":"u1"}'
    assert len(list(admin.read_records(stream.client, stream.name, limit=1))) == 1
    with pytest.raises(UserError, match="KINESIS_PARTITION_KEY_INVALID"):
        admin.put_record(stream.client, stream.name, "k" * 257, b"")


def test_looking_goes_through_a_split_in_order(stream, tools):
    stream.put(tools.numbered(30))
    stream.split()
    stream.put(tools.numbered(30, start=30))
    records = list(admin.read_records(stream.client, stream.name))
    assert sorted(r.data for r in records) == [b"%08d" % i for i in range(60)]
    assert {r.shard for r in records[:30]} == {"shardId-000000000000"}


def test_following_from_now_sees_only_what_is_new(stream, tools):
    stream.put([("k", b"old")])
    look = admin.read_records(stream.client, stream.name, from_beginning=False, limit=2, follow=True)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.extend(r.data for r in look))
    reader.start()

    def write() -> bool:
        stream.put_one("k", b"new")
        return len(seen) == 2

    tools.eventually(write, "two new records")
    reader.join()
    assert seen == [b"new", b"new"]


def test_no_credentials_anywhere(monkeypatch, tmp_path, kinesalite):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    client = KinesisClient(Connection("us-east-1", kinesalite), RetryPolicy(budget=0.1))
    with pytest.raises(UserError, match="KINESIS_CREDENTIALS_MISSING"):
        admin.list_streams(client)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert isinstance(admin.list_streams(client), list), "the default chain is asked again"
    client.close()


def test_endpoint_of_the_region_comes_from_botocore():
    from ds_dagster.spark.kinesis.client import _Signer

    def url(region: str) -> str:
        return _Signer(Connection(region, access_key_id="a", secret_access_key="b")).sign("ListStreams", b"{}")[0]

    assert url("us-east-2") == "https://kinesis.us-east-2.amazonaws.com/"
    assert url("cn-north-1") == "https://kinesis.cn-north-1.amazonaws.com.cn/"
