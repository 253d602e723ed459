"""A real Kinesis API (kinesalite), a proxy that injects faults into it, and a stand-in for Spark's batch loop."""

from __future__ import annotations

import binascii
import http.client
import http.server
import json
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from ds_dagster.local import kinesis as local_kinesis
from ds_dagster.local.server import Home, start_server, stop_server
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.options import Connection, KinesisOptions
from ds_dagster.spark.kinesis.put import OutRecord, Putter
from ds_dagster.spark.kinesis.source import KinesisStreamReader
from tests.spark.kinesis import streams

SECRET = "s3cr3t-wJalrXUtnFEMI"
DEADLINE = 30.0
API = "Kinesis_20131202."

Answer = tuple[int, dict[str, Any]]
Forward = Callable[[Mapping[str, Any]], Answer]
Hook = Callable[[str, Mapping[str, Any], Forward], Answer]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(look: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Poll until ``look`` gives something true."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        threading.Event().wait(0.01)


@pytest.fixture(scope="session")
def kinesalite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a running server."""
    home = Home(tmp_path_factory.mktemp("kinesalite"), "kinesis", {"kinesis": free_port()})
    start_server(local_kinesis.SERVER, home, lambda text: None)
    yield f"http://127.0.0.1:{home.port}"
    stop_server(local_kinesis.SERVER, home)


class Proxy:
    """Forwards to a Kinesis API; ``hook`` may change requests and answers, or answer itself."""

    def __init__(self, target: str) -> None:
        self._target = target.removeprefix("http://")
        self.hook: Hook | None = None
        self.calls: list[str] = []
        self.keys: list[str] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                status, answer = proxy._answer(headers, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                if not isinstance(sys.exc_info()[1], OSError):  # clients may hang up
                    super().handle_error(request, client_address)

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def _answer(self, headers: Mapping[str, str], body: bytes) -> Answer:
        operation = headers["X-Amz-Target"].removeprefix(API)
        with self._lock:
            self.calls.append(operation)
            self.keys.append(headers["Authorization"].partition("Credential=")[2].partition("/")[0])

        def forward(request: Mapping[str, Any]) -> Answer:
            connection = http.client.HTTPConnection(self._target, timeout=20)
            sent = {k: v for k, v in headers.items() if k.lower() != "content-length"}
            connection.request("POST", "/", json.dumps(request).encode(), sent)
            response = connection.getresponse()
            data = response.read()
            connection.close()
            return response.status, json.loads(data) if data else {}

        request = json.loads(body)
        return self.hook(operation, request, forward) if self.hook else forward(request)

    def count(self, operation: str) -> int:
        with self._lock:
            return self.calls.count(operation)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def proxy(kinesalite: str) -> Iterator[Proxy]:
    running = Proxy(kinesalite)
    yield running
    running.close()


def connection_to(url: str) -> Connection:
    return Connection("us-east-1", url, access_key_id="AKIDEXAMPLE", secret_access_key=SECRET)


@dataclass
class Stream:
    """One stream of the test, written and resharded directly (never through the proxy)."""

    client: KinesisClient
    name: str
    sequence_numbers: list[str] = field(default_factory=list)

    def put(self, records: Sequence[tuple[str, bytes]]) -> None:
        Putter(self.client, self.name, 2).put([OutRecord(key, data) for key, data in records])

    def put_one(self, key: str, data: bytes) -> str:
        return streams.put_record(self.client.connection, self.name, key, data)

    def call(self, operation: str, **payload: object) -> Mapping[str, Any]:
        body = self.client.call(operation, {"StreamName": self.name, **payload}).body
        streams.await_status(self.client.connection, self.name, "ACTIVE")
        return body

    def shards(self) -> list[dict[str, Any]]:
        return list(self.client.call("ListShards", {"StreamName": self.name}).body["Shards"])

    def open_shards(self) -> list[dict[str, Any]]:
        return [s for s in self.shards() if "EndingSequenceNumber" not in s["SequenceNumberRange"]]

    def split(self) -> None:
        """Split the widest open shard in the middle."""

        def width(shard: dict[str, Any]) -> int:
            limits = shard["HashKeyRange"]
            return int(limits["EndingHashKey"]) - int(limits["StartingHashKey"])

        widest = max(self.open_shards(), key=width)
        middle = int(widest["HashKeyRange"]["StartingHashKey"]) + width(widest) // 2
        self.call("SplitShard", ShardToSplit=widest["ShardId"], NewStartingHashKey=str(middle))

    def merge(self) -> None:
        """Merge the first two neighbours."""
        first, second = sorted(self.open_shards(), key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))[:2]
        self.call("MergeShards", ShardToMerge=first["ShardId"], AdjacentShardToMerge=second["ShardId"])


@pytest.fixture
def new_stream(kinesalite: str) -> Iterator[Callable[..., Stream]]:
    client = KinesisClient(connection_to(kinesalite), connections=4)
    made: list[Stream] = []

    def make(shards: int = 1) -> Stream:
        stream = Stream(client, f"s-{uuid.uuid4().hex[:12]}")
        streams.create_stream(client.connection, stream.name, shards)
        made.append(stream)
        return stream

    yield make
    for stream in made:
        streams.delete_stream(client.connection, stream.name)
    client.close()


@pytest.fixture
def stream(new_stream: Callable[..., Stream]) -> Stream:
    return new_stream(1)


Row = tuple[str, str, str, bytes]
"""shard, sequence number, partition key, data"""


class Batches:
    """Spark's micro-batch loop around one reader: plans, reads, commits, and keeps the offset log over restarts."""

    def __init__(self, options: KinesisOptions) -> None:
        self.options = options
        self.log: list[dict[str, Any]] = []
        self.rows: list[Row] = []
        self.sizes: list[int] = []
        self.reader = KinesisStreamReader(options)
        self._initial: dict[str, Any] | None = None

    @property
    def position(self) -> dict[str, Any]:
        if self.log:
            return self.log[-1]
        if self._initial is None:
            self._initial = json.loads(json.dumps(self.reader.initialOffset()))
        return self._initial

    def plan(self, limit: ReadLimit | None = None) -> dict[str, Any] | None:
        """The next batch's end, or None when there is nothing."""
        end = json.loads(
            json.dumps(self.reader.latestOffset(self.position, limit or self.reader.getDefaultReadLimit()))
        )
        return None if end == self.position else end

    def read(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Row]:
        """What the tasks of one batch give."""
        rows: list[Row] = []
        task = KinesisStreamReader(self.options)  # tasks run elsewhere: no threads, no spool of their own
        for partition in self.reader.partitions(start, end):
            for batch in task.read(partition):
                columns = (
                    batch.column(c).to_pylist() for c in ("shard_id", "sequence_number", "partition_key", "data")
                )
                rows += list(zip(*columns, strict=True))
        task.stop()
        return rows

    def step(self, limit: ReadLimit | None = None) -> int | None:
        """One batch; None when there was nothing to do."""
        start = self.position
        end = self.plan(limit)
        if end is None:
            return None
        rows = self.read(start, end)
        self.log.append(end)
        self.reader.commit(end)
        self.rows += rows
        self.sizes.append(len(rows))
        return len(rows)

    def until(self, count: int, seconds: float = DEADLINE) -> list[Row]:
        """Run batches until so many rows were read in all."""

        def enough() -> bool:
            self.step()
            return len(self.rows) >= count

        eventually(enough, f"{count} rows", seconds)
        return self.rows

    def drain(self) -> int:
        """A finite run: batches until there is nothing more; number of rows."""
        before = len(self.rows)
        while self.step(ReadAllAvailable()) is not None:
            pass
        return len(self.rows) - before

    def restart(self, **changes: object) -> None:
        """A new process: the old reader ends, the offset log stays."""
        self.reader.stop()
        self.options = KinesisOptions(**{**_fields(self.options), **changes})  # type: ignore[arg-type]
        self.reader = KinesisStreamReader(self.options)
        self._initial = None

    def crash(self) -> None:
        """A new process while the old one left its files behind."""
        prefetcher = self.reader._prefetcher
        if prefetcher:
            prefetcher.stop()
        self.reader = KinesisStreamReader(self.options)
        self._initial = None


def _fields(options: KinesisOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


@pytest.fixture
def read_from(kinesalite: str, tmp_path: Path) -> Iterator[Callable[..., Batches]]:
    """Make a batch loop over a stream; ``url`` may be a proxy's."""
    made: list[Batches] = []

    def make(stream: Stream, url: str = "", **options: object) -> Batches:
        settings: dict[str, Any] = {"spool": str(tmp_path / "spool"), "poll_seconds": 0.02, "discovery_seconds": 0.2}
        settings |= {"connection": connection_to(url or kinesalite), **options}
        batches = Batches(KinesisOptions(stream.name, **settings))
        made.append(batches)
        return batches

    yield make
    for batches in made:
        batches.reader.stop()


def numbered(count: int, keys: int = 7, start: int = 0) -> list[tuple[str, bytes]]:
    return [(f"k{i % keys}", f"{i:08d}".encode()) for i in range(start, start + count)]


def decoded(data: str) -> bytes:
    return binascii.a2b_base64(data)


@pytest.fixture(scope="session")
def tools() -> Any:
    """Helpers for test modules (they cannot import a conftest)."""

    class Tools:
        pass

    for helper in (eventually, numbered, decoded, connection_to, free_port):
        setattr(Tools, helper.__name__, staticmethod(helper))
    Tools.secret = SECRET  # type: ignore[attr-defined]
    return Tools


@pytest.fixture(scope="session")
def spark(spark: Any) -> Iterator[Any]:
    """A session with the source, of the process's one Spark; these tests name no sources."""
    from ds_dagster.spark.kinesis.source import KinesisDataSource
    from ds_dagster.spark.session import active

    session = spark.newSession()
    session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    session.dataSource.register(KinesisDataSource)
    with active(session):
        yield session
