"""How fast GetRecords answers become Arrow: our client against boto3, on the same canned answers.

A server in a process of its own repeats one page of 10,000 records, plain or a hundred to an aggregate. Both clients
fetch and build the same Arrow batch. The figure is records per CPU second of the client process; the ratio is ours to
boto3's, median of the interleaved runs.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

import pyarrow as pa

from benchmarks.measure import Pairs, Result, Size, results
from ds_dagster.kinesis_aggregates import MAGIC, WHOLE, open_aggregate
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.decode import RECORD_SCHEMA, decode_records, has_aggregates, take_apart
from ds_dagster.spark.kinesis.options import Connection

PAGE = 10_000
BYTES = 200
TOGETHER = 100
"""Records in an aggregate."""
FIRST = 49500000000000000000000000000000000000000000000000000000


def field(number: int, content: bytes) -> bytes:
    """A Protobuf field of less than 16,384 bytes."""
    size = len(content)
    return bytes([number << 3 | 2, *([size] if size < 128 else [size & 127 | 128, size >> 7])]) + content


def aggregate(records: list[bytes]) -> bytes:
    body = field(1, b"key") + b"".join(field(3, b"\x08\x00" + field(3, record)) for record in records)
    return MAGIC + body + hashlib.md5(body).digest()


def serve(size: int, aggregated: bool, pipe: Pipe) -> None:
    data = [os.urandom(size // 2).hex().encode() for _ in range(PAGE)]
    if aggregated:
        data = [aggregate(data[i : i + TOGETHER]) for i in range(0, PAGE, TOGETHER)]
    records = [
        {
            "SequenceNumber": str(FIRST + i),
            "ApproximateArrivalTimestamp": 1700000000.123 + i / 1000,
            "Data": base64.b64encode(content).decode(),
            "PartitionKey": f"k{i}",
        }
        for i, content in enumerate(data)
    ]
    page = json.dumps({"Records": records, "NextShardIterator": "next", "MillisBehindLatest": 1000}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


def by_ours(url: str) -> Callable[[], pa.RecordBatch]:
    client = KinesisClient(Connection("us-east-1", url, "AKIDEXAMPLE", "secret"))

    def fetch() -> pa.RecordBatch:
        records = client.call("GetRecords", {"ShardIterator": "next"}).body["Records"]
        return decode_records(take_apart(records, lambda: WHOLE) if has_aggregates(records) else records, "shard")

    return fetch


def by_boto3(url: str) -> Callable[[], pa.RecordBatch]:
    import boto3

    client = boto3.client(
        "kinesis",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
    )

    def fetch() -> pa.RecordBatch:
        rows: list[tuple[Any, ...]] = []
        for r in client.get_records(ShardIterator="next")["Records"]:
            inside = open_aggregate(r["Data"]) or [(r["PartitionKey"], r["Data"])]
            number, arrived = r["SequenceNumber"], r["ApproximateArrivalTimestamp"]
            rows += [(data, key, number, sub, "shard", arrived) for sub, (key, data) in enumerate(inside)]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, part.type) for column, part in zip(columns, RECORD_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)

    return fetch


def rate(fetch: Callable[[], pa.RecordBatch], pages: int) -> float:
    """Records per CPU second."""
    begun = time.process_time()
    for _ in range(pages):
        assert fetch().num_rows == PAGE
    return pages * PAGE / (time.process_time() - begun)


def decode(size: Size) -> list[Result]:
    """Both clients on the same server, in turns; first with plain records, then with aggregates."""
    pages = size.of(40, 10)
    return [result for aggregated in (False, True) for result in _compared(size, pages, aggregated)]


def _compared(size: Size, pages: int, aggregated: bool) -> list[Result]:
    ours_end, server_end = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(BYTES, aggregated, server_end), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{ours_end.recv()}"
        ours, peer = by_ours(url), by_boto3(url)
        same = ours().drop_columns(["approximate_arrival_timestamp"])
        if not same.equals(peer().drop_columns(["approximate_arrival_timestamp"])):
            raise SystemExit("the two clients see different records")
        what = "Kinesis decode, aggregated" if aggregated else "Kinesis decode"
        found = Pairs(f"{what} (peer: boto3)", "records per CPU second", True)
        for _ in range(size.runs):
            found.add(rate(ours, pages), rate(peer, max(1, pages // 5)))
    finally:
        server.terminate()
        server.join()
    return results((found,))
