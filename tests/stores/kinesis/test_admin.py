"""Control of a real Kinesis API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType

import pytest
from botocore.stub import Stubber

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import NewRecord
from ds_dagster.errors import DsError
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from ds_dagster.stores.kinesis.redriving import find
from tests.spark.kinesis.aggregates import aggregate

pytestmark = pytest.mark.servers


@pytest.fixture
def admin(kinesis_settings: Mapping[str, str]) -> KinesisAdmin:
    return KinesisAdmin("prod_kinesis", kinesis_settings)


@pytest.fixture
def stream() -> str:
    return f"s_{uuid.uuid4().hex[:10]}"


def plan(stream: str, shards: int | None = 2, **more: object) -> EntityPlan:
    counts = {} if shards is None else {"topic.shards": shards}
    return EntityPlan(stream, MappingProxyType(counts), used_by="db.public.r", **more)  # type: ignore[arg-type]


def test_shards_of_the_local_server_are_changed(admin: KinesisAdmin, stream: str) -> None:
    """It knows no UpdateShardCount. Every record stays readable, and the whole hash range has a shard."""
    admin.ensure(plan(stream, 1))
    operations = admin.operations()
    for number in range(20):
        operations.insert((stream,), NewRecord(f'{{"n": {number}}}', f"k{number}"))
    for wanted in (4, 3, 1, 2):
        operations.update((stream,), EntityPlan("", MappingProxyType({"topic.shards": wanted})))
        found = operations.describe((stream,))
        assert found is not None
        assert found.facts.counts["topic.shards"] == wanted
        ranges = sorted(
            (int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]))
            for shard in admin._shards(stream, only_open=True)
        )
        assert ranges[0][0] == 0
        assert ranges[-1][1] == 2**128 - 1
        assert all(left[1] + 1 == right[0] for left, right in pairwise(ranges))
    kept = admin.records(stream, from_beginning=True, limit=100, stopped=lambda: False)
    assert len(list(kept)) == 20


def test_creates_describes_and_compares(admin: KinesisAdmin, stream: str) -> None:
    assert admin.probe().ok
    assert admin.describe(stream) is None
    with pytest.raises(DsError) as absent:
        admin.ensure(plan(stream, None))
    assert absent.value.condition == "ENTITY_MISSING"
    made = admin.ensure(plan(stream))
    assert (made.counts["topic.shards"], made.record_time) == (2, "broker")
    with pytest.raises(DsError) as problem:
        admin.ensure(plan(stream, 3, stated=frozenset({"topic.shards"})))
    assert problem.value.condition == "ENTITY_COUNT_DIFFERS"
    copied = admin.ensure(plan(f"{stream}_like", None, like=("prod_kinesis", stream)))
    assert copied.counts["topic.shards"] == 2
    assert stream in [facts.name for facts in admin.entities()]


def test_prints_records_of_all_shards(admin: KinesisAdmin, stream: str) -> None:
    admin.ensure(plan(stream))
    client = admin._client()
    for number in range(20):
        client.put_record(StreamName=stream, PartitionKey=f"k{number}", Data=f"v{number}".encode())
    found = list(admin.records(stream, from_beginning=True, limit=100, stopped=lambda: False))
    assert {record.value for record in found} == {f"v{number}".encode() for number in range(20)}
    assert len({record.partition for record in found}) == 2
    assert len(list(admin.records(stream, from_beginning=True, limit=3, stopped=lambda: False))) == 3
    assert admin.end_reached(stream, {}) == 20
    last = {record.partition: record.position for record in found}
    assert admin.end_reached(stream, last) == 0


def test_records_since_a_moment(admin: KinesisAdmin, stream: str) -> None:
    admin.ensure(plan(stream, 1))
    client = admin._client()
    for data in (b"first", b"second", b"third"):
        client.put_record(StreamName=stream, PartitionKey="k", Data=data)
    everything = list(admin.records(stream, from_beginning=True, limit=10, stopped=lambda: False))
    since = everything[-1].timestamp_millis
    records = admin.records(stream, from_beginning=True, limit=10, stopped=lambda: False, since=since)
    assert list(records) == [record for record in everything if record.timestamp_millis >= since]


def test_unreachable(kinesis_settings: Mapping[str, str]) -> None:
    gone = KinesisAdmin("prod_kinesis", {**kinesis_settings, "endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(DsError) as problem:
        gone.describe("users")
    assert (problem.value.condition, problem.value.fault.hint) == ("STORE_UNREACHABLE", "back_off")


def test_prints_what_is_inside_an_aggregate(admin: KinesisAdmin, stream: str) -> None:
    admin.ensure(plan(stream, 1))
    data = aggregate([("a", b"1"), ("b", b""), ("a", b"2")])
    number = admin._client().put_record(StreamName=stream, PartitionKey="outer", Data=data)["SequenceNumber"]
    found = list(admin.records(stream, from_beginning=True, limit=10, stopped=lambda: False))
    assert [(r.position, r.key, r.value) for r in found] == [
        (number, b"a", b"1"),
        (f"{number}.1", b"b", None),
        (f"{number}.2", b"a", b"2"),
    ]
    again = find(admin, stream, [(r.partition, r.position) for r in found])
    assert list(again.values()) == found, "printed positions are those that `ds redrive` looks up"
    assert admin.end_reached(stream, {}) == 3


@pytest.mark.parametrize(
    ("operation", "code", "status", "condition", "hint"),
    [
        ("create_stream", "LimitExceededException", 400, "STORE_CALL_FAILED", "back_off"),
        ("create_stream", "ValidationException", 400, "ENTITY_REFUSED", "never"),
        ("describe_stream_summary", "LimitExceededException", 400, "STORE_CALL_FAILED", "back_off"),
        ("describe_stream_summary", "AccessDeniedException", 400, "STORE_PERMISSION_DENIED", "never"),
        ("describe_stream_summary", "ExpiredTokenException", 400, "STORE_LOGIN_REFUSED", "never"),
    ],
)
def test_whose_fault_an_answer_is(operation: str, code: str, status: int, condition: str, hint: str) -> None:
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    admin = KinesisAdmin("prod_kinesis", {"region_name": "us-east-2", **keys})
    with Stubber(admin._client()) as stub:
        if operation == "create_stream":
            stub.add_client_error("describe_stream_summary", "ResourceNotFoundException")
        stub.add_client_error(operation, code, "injected", http_status_code=status)
        with pytest.raises(DsError) as problem:
            admin.ensure(plan("s"))
    assert (problem.value.condition, problem.value.fault.hint) == (condition, hint)
    admin.close()


def test_a_stream_of_the_same_name_is_another_one(admin: KinesisAdmin, stream: str) -> None:
    first = admin.ensure(plan(stream)).identity
    assert first and admin.ensure(plan(stream)).identity == first
    ends = time.monotonic() + 30
    while admin.ensure(plan(stream)).identity == first:  # this server keeps whole seconds
        assert time.monotonic() < ends
        admin._client().delete_stream(StreamName=stream)
        while admin.describe(stream) is not None:
            assert time.monotonic() < ends
