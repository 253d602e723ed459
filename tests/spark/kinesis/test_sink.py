"""Writing to a real Kinesis API through a proxy that refuses a part of what it gets."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from ds_dagster.errors import ExternalError, UserError
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.options import KinesisOptions
from ds_dagster.spark.kinesis.put import OutRecord, Putter
from ds_dagster.spark.kinesis.sink import KinesisStreamWriter
from ds_dagster.spark.kinesis.timing import RetryPolicy
from tests.spark.kinesis import streams

pytestmark = pytest.mark.servers


class Refusing:
    """Takes a share of each PutRecords' entries and refuses the others, as a throttled shard does."""

    def __init__(self, share: float, code: str = "ProvisionedThroughputExceededException") -> None:
        self.share = share
        self.code = code
        self.refused = 0
        self.requests: list[int] = []
        self._random = random.Random(7)
        self._lock = threading.Lock()

    def __call__(self, operation, request, forward):
        if operation != "PutRecords":
            return forward(request)
        entries = request["Records"]
        with self._lock:
            accepted = [self._random.random() >= self.share for _ in entries]
            self.requests.append(len(entries))
            self.refused += accepted.count(False)
        taken = [entry for entry, good in zip(entries, accepted, strict=True) if good]
        answers = iter(forward({**request, "Records": taken})[1]["Records"] if taken else [])
        no = {"ErrorCode": self.code, "ErrorMessage": "Rate exceeded for shard"}
        records = [next(answers) if good else no for good in accepted]
        return 200, {"FailedRecordCount": accepted.count(False), "Records": records}


def putter(url: str, stream, tools, lanes: int = 3, budget: float = 20.0) -> Putter:
    client = KinesisClient(tools.connection_to(url), RetryPolicy(base=0.001, cap=0.01, budget=budget))
    return Putter(client, stream.name, lanes)


def written(stream) -> list[streams.Written]:
    return streams.read_records(stream.client.connection, stream.name)


def test_partly_refused_requests_lose_double_and_reorder_nothing(new_stream, proxy, tools):
    stream = new_stream(3)
    proxy.hook = refusing = Refusing(0.3)
    sent = [OutRecord(key, data) for key, data in tools.numbered(3000, keys=40)]
    putter(proxy.url, stream, tools).put(sent)
    assert refusing.refused > 500
    assert sum(refusing.requests) == 3000 + refusing.refused, "only what failed is sent again"
    records = written(stream)
    assert sorted((r.partition_key, r.data) for r in records) == sorted((r.key, r.data) for r in sent)
    by_key = defaultdict(list)
    for record in records:
        by_key[record.partition_key].append(record.data)
    assert all(values == sorted(values) for values in by_key.values())


def test_throttling_without_end_is_an_error(stream, proxy, tools):
    proxy.hook = Refusing(1.0)
    with pytest.raises(ExternalError) as raised:
        putter(proxy.url, stream, tools, budget=0.3).put([OutRecord("k", b"1")])
    assert raised.value.condition == "KINESIS_THROTTLED"
    proxy.hook = Refusing(1.0, code="InternalFailure")
    with pytest.raises(ExternalError, match="KINESIS_REFUSED"):
        putter(proxy.url, stream, tools, budget=0.3).put([OutRecord("k", b"1")])


def test_whole_requests_that_fail_are_sent_again(stream, proxy, tools):
    calls: list[str] = []

    def flaky(operation, request, forward):
        calls.append(operation)
        code = "ProvisionedThroughputExceededException" if len(calls) % 4 else "InternalFailure"
        return forward(request) if len(calls) % 2 else (400 if len(calls) % 4 else 500, {"__type": code})

    proxy.hook = flaky
    putter(proxy.url, stream, tools, lanes=1).put([OutRecord(f"k{i}", b"%d" % i) for i in range(1200)])
    assert len(written(stream)) == 1200
    assert len(calls) > 3


def test_limits_of_a_request_are_kept(stream, proxy, tools):
    sizes: list[tuple[int, int]] = []

    def watch(operation, request, forward):
        entries = request["Records"]
        bytes_sent = sum(len(tools.decoded(e["Data"])) + len(e["PartitionKey"].encode()) for e in entries)
        sizes.append((len(entries), bytes_sent))
        return forward(request)

    proxy.hook = watch
    records = [OutRecord(f"small{i}", b"x") for i in range(1100)] + [
        OutRecord(f"big{i}", b"x" * 900_000) for i in range(8)
    ]
    putter(proxy.url, stream, tools, lanes=1).put(records)
    assert max(count for count, _ in sizes) == 500
    assert max(size for _, size in sizes) <= 5_000_000
    assert len(written(stream)) == 1108


@pytest.mark.parametrize(
    ("record", "condition"),
    [
        (OutRecord("k" * 257, b"x"), "KINESIS_PARTITION_KEY_INVALID"),
        (OutRecord("", b"x"), "KINESIS_PARTITION_KEY_INVALID"),
        (OutRecord("k", b"x" * (1024 * 1024 + 1)), "KINESIS_RECORD_TOO_LARGE"),
    ],
)
def test_what_kinesis_never_takes_is_refused_before_anything_is_written(stream, kinesalite, tools, record, condition):
    with pytest.raises(UserError) as raised:
        putter(kinesalite, stream, tools).put([OutRecord("fine", b"1"), record])
    assert raised.value.condition == condition
    assert written(stream) == []


def test_the_longest_key_and_the_largest_record_are_taken(stream, kinesalite, tools):
    largest = 1024 * 1024 - 256
    putter(kinesalite, stream, tools).put([OutRecord("k" * 256, b"x" * largest)])
    assert [(len(r.partition_key), len(r.data)) for r in written(stream)] == [(256, largest)]
    with pytest.raises(UserError, match="KINESIS_RECORD_TOO_LARGE"):
        putter(kinesalite, stream, tools).put([OutRecord("k" * 256, b"x" * (largest + 1))])


def test_a_stream_may_take_larger_records(stream, proxy, tools):
    sizes: list[list[int]] = []

    def generous(operation, request, forward):
        if operation == "PutRecords":
            sizes.append([len(tools.decoded(entry["Data"])) for entry in request["Records"]])
            return 200, {"FailedRecordCount": 0, "Records": [{"SequenceNumber": "1"} for _ in request["Records"]]}
        status, answer = forward(request)
        answer["StreamDescriptionSummary"]["MaxRecordSizeInKiB"] = 10 * 1024
        return status, answer

    proxy.hook = generous
    large = [OutRecord(f"k{i}", b"x" * size) for i, size in enumerate((10, 3_000_000, 9_000_000, 2_500_000))]
    putter(proxy.url, stream, tools, lanes=1).put(large)
    assert sizes == [[10, 3_000_000], [9_000_000], [2_500_000]], "one over the limit of a request goes alone"
    with pytest.raises(UserError) as raised:
        putter(proxy.url, stream, tools).put([OutRecord("k", b"x" * 10 * 1024 * 1024)])
    assert raised.value.params["limit"] == 10 * 1024 * 1024
    asked = proxy.count("DescribeStreamSummary")
    putter(proxy.url, stream, tools).put(large[:1])
    assert proxy.count("DescribeStreamSummary") == asked, "ordinary records ask nothing"


def test_keys_keep_their_order_while_shards_split_and_merge(new_stream, proxy, tools):
    """Read by boto3, parents before children: an order of its own."""
    stream = new_stream(2)
    proxy.hook = Refusing(0.1)
    sent = [OutRecord(key, data) for key, data in tools.numbered(6000, keys=30)]

    def write() -> None:
        for at in range(0, len(sent), 500):
            putter(proxy.url, stream, tools).put(sent[at : at + 500])

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        for reshard in (stream.split, stream.merge, stream.split):
            reached = proxy.count("PutRecords") + 6
            tools.eventually(lambda n=reached: writing.done() or proxy.count("PutRecords") >= n, "more requests")
            assert not writing.done(), "the shards change while somebody writes"
            reshard()
        writing.result()
    found = by_boto3(stream)
    assert len({shard for shard, _, _ in found}) >= 5
    assert sorted((key, data) for _, key, data in found) == sorted((r.key, r.data) for r in sent)
    by_key = defaultdict(list)
    for _, key, data in found:
        by_key[key].append(data)
    assert all(values == sorted(values) for values in by_key.values())


def by_boto3(stream) -> list[tuple[str, str, bytes]]:
    """Every record as (shard, key, data)."""
    return [(record.shard, record.partition_key, record.data) for record in written(stream)]


def test_writer_takes_arrow_batches_deletes_and_missing_keys(stream, kinesalite, tools):
    writer = KinesisStreamWriter(KinesisOptions(stream.name, tools.connection_to(kinesalite)))
    batch = pa.RecordBatch.from_pydict(
        {
            "data": pa.array([b"1", b"", None, b"4"], pa.binary()),
            "partition_key": pa.array(["a", "a", "b", None], pa.string()),
        }
    )
    assert writer.write(iter([batch, batch])).rows == 8
    records = written(stream)
    assert [(r.partition_key, r.data) for r in records if r.partition_key == "a"] == [("a", b"1"), ("a", b"")] * 2
    assert [r.data for r in records if r.partition_key == "b"] == [b"", b""]
    assert len({r.partition_key for r in records}) == 4
