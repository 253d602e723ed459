"""How fast GetRecords answers become Arrow: our client against boto3, on the same canned answers.

    python benchmarks/kinesis_decode.py [--pages 40] [--bytes 200] [--runs 5] [--out benchmarks/out/kinesis_decode.json]

A server in a process of its own repeats one page of 10,000 records. Both clients fetch and build
the same Arrow batch. The figure is records per CPU second of the client process; the ratio is ours to boto3's, median
of the interleaved runs.
"""

from __future__ import annotations

import argparse
import base64
import http.server
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa

from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.decode import RECORD_SCHEMA, decode_records
from ds_dagster.spark.kinesis.options import Connection

PAGE = 10_000
FIRST = 49500000000000000000000000000000000000000000000000000000


def serve(size: int, pipe: Pipe) -> None:
    records = [
        {
            "SequenceNumber": str(FIRST + i),
            "ApproximateArrivalTimestamp": 1700000000.123 + i / 1000,
            "Data": base64.b64encode(os.urandom(size // 2).hex().encode()).decode(),
            "PartitionKey": f"k{i}",
        }
        for i in range(PAGE)
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
    return lambda: decode_records(client.call("GetRecords", {"ShardIterator": "next"}).body["Records"], "shard")


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
        records: list[dict[str, Any]] = client.get_records(ShardIterator="next")["Records"]
        return pa.RecordBatch.from_arrays(
            [
                pa.array([r["Data"] for r in records], pa.binary()),
                pa.array([r["PartitionKey"] for r in records], pa.string()),
                pa.array([r["SequenceNumber"] for r in records], pa.string()),
                pa.array(["shard"] * len(records), pa.string()),
                pa.array([r["ApproximateArrivalTimestamp"] for r in records], pa.timestamp("us", "UTC")),
            ],
            schema=RECORD_SCHEMA,
        )

    return fetch


def rate(fetch: Callable[[], pa.RecordBatch], pages: int) -> float:
    """Records per CPU second."""
    begun = time.process_time()
    for _ in range(pages):
        assert fetch().num_rows == PAGE
    return pages * PAGE / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    ours_end, server_end = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(asked.bytes, server_end), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours_end.recv()}"
    ours, peer = by_ours(url), by_boto3(url)
    same = ours().drop_columns(["approximate_arrival_timestamp"])
    assert same.equals(peer().drop_columns(["approximate_arrival_timestamp"])), "both see the same records"
    rates = [(rate(ours, asked.pages), rate(peer, max(1, asked.pages // 5))) for _ in range(asked.runs)]
    server.terminate()
    server.join()
    result = {
        "name": "kinesis decode",
        "ours": round(statistics.median(r[0] for r in rates)),
        "peer": round(statistics.median(r[1] for r in rates)),
        "unit": "records per CPU second (peer: boto3)",
        "ratio": round(statistics.median(r[0] / r[1] for r in rates), 2),
        "runs": asked.runs,
    }
    print(json.dumps(result))
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps([result], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
