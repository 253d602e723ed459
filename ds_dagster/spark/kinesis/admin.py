"""Streams as a store sees them: exist, create, count shards, put and look at records. No Spark in here."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ds_dagster.errors import error
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import ShardCursor, stream_summary
from ds_dagster.spark.kinesis.decode import RawRecord, arrival_millis, record_data
from ds_dagster.spark.kinesis.offsets import TRIM_HORIZON, Position
from ds_dagster.spark.kinesis.options import Connection
from ds_dagster.spark.kinesis.put import OutRecord, check_record, record_limit
from ds_dagster.spark.kinesis.shards import Shard, first_positions, list_shards, startable

ACTIVE_SECONDS = 120.0
POLL_SECONDS = 0.2
NOT_FOUND = frozenset({"ResourceNotFoundException"})
IN_USE = frozenset({"ResourceInUseException"})


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream. ``status`` as in the API (CREATING, ACTIVE, UPDATING, DELETING); ``open_shards`` take records now."""

    name: str
    status: str
    open_shards: int
    retention_hours: int


@dataclass(frozen=True, slots=True)
class KinesisRecord:
    """One record as read. ``arrived``: epoch milliseconds; empty ``data`` is a delete of ``partition_key``."""

    shard: str
    sequence_number: str
    partition_key: str
    data: bytes
    arrived: int


def open_client(connection: Connection) -> KinesisClient:
    """A client for these functions; close it. Connects on the first call."""
    return KinesisClient(connection, connections=4)


def list_streams(client: KinesisClient) -> list[str]:
    """Names of all streams of the account in the region, sorted."""
    names: list[str] = []
    more = True
    while more:
        start = {"ExclusiveStartStreamName": names[-1]} if names else {}
        body = client.call("ListStreams", {"Limit": 100, **start}).body
        names += body["StreamNames"]
        more = bool(body.get("HasMoreStreams")) and bool(body["StreamNames"])
    return sorted(names)


def find_stream(client: KinesisClient, stream: str) -> StreamInfo | None:
    """The stream, or None when it does not exist."""
    reply = client.call("DescribeStreamSummary", {"StreamName": stream}, expected=NOT_FOUND)
    if reply.code:
        return None
    summary = reply.body["StreamDescriptionSummary"]
    return StreamInfo(
        stream,
        str(summary["StreamStatus"]),
        int(summary["OpenShardCount"]),
        int(summary.get("RetentionPeriodHours") or 24),
    )


def shard_count(client: KinesisClient, stream: str) -> int:
    """Shards that take records now. Raises KINESIS_STREAM_NOT_FOUND."""
    return int(stream_summary(client, stream)["OpenShardCount"])


def create_stream(
    client: KinesisClient, stream: str, shards: int, retention_hours: int | None = None, seconds: float = ACTIVE_SECONDS
) -> bool:
    """Create a stream and wait until it is ACTIVE.

    Args:
        client: the API.
        stream: name.
        shards: number of shards.
        retention_hours: 24 to 8760; None leaves the service's default. Not changed on a stream that exists.
        seconds: how long to wait.

    Returns:
        True if it was created, False if it existed.

    Raises:
        ExternalError: KINESIS_STREAM_NOT_ACTIVE after ``seconds``, or refused (limits of the account).
    """
    request = {"StreamName": stream, "ShardCount": shards}
    created = not client.call("CreateStream", request, expected=IN_USE).code
    wait_active(client, stream, seconds)
    if created and retention_hours is not None and retention_hours > 24:
        client.call("IncreaseStreamRetentionPeriod", {"StreamName": stream, "RetentionPeriodHours": retention_hours})
        wait_active(client, stream, seconds)
    return created


def wait_active(client: KinesisClient, stream: str, seconds: float = ACTIVE_SECONDS) -> None:
    """Wait until the stream is ACTIVE. Raises KINESIS_STREAM_NOT_ACTIVE."""
    deadline = client.clock.monotonic() + seconds
    while True:
        info = find_stream(client, stream)
        status = info.status if info else "ABSENT"
        if status == "ACTIVE":
            return
        if client.clock.monotonic() > deadline or client.clock.wait(client.stopped, POLL_SECONDS):
            raise error("KINESIS_STREAM_NOT_ACTIVE", stream=stream, status=status, seconds=seconds)


def delete_stream(client: KinesisClient, stream: str, seconds: float = ACTIVE_SECONDS) -> bool:
    """Delete a stream and wait until it is gone; False if there was none."""
    if client.call("DeleteStream", {"StreamName": stream}, expected=NOT_FOUND).code:
        return False
    deadline = client.clock.monotonic() + seconds
    while (info := find_stream(client, stream)) is not None:
        if client.clock.monotonic() > deadline or client.clock.wait(client.stopped, POLL_SECONDS):
            raise error("KINESIS_STREAM_NOT_ACTIVE", stream=stream, status=info.status, seconds=seconds)
    return True


def put_record(client: KinesisClient, stream: str, key: str, data: bytes) -> str:
    """Write one record; empty ``data`` deletes the key. Returns the sequence number.

    Raises:
        UserError: no such stream, key or record over the limits.
    """
    record = OutRecord(key, data)
    check_record(stream, record, record_limit(client, stream, record.size))
    text = binascii.b2a_base64(data, newline=False).decode()
    request = {"StreamName": stream, "PartitionKey": key, "Data": text}
    return str(client.call("PutRecord", request).body["SequenceNumber"])


def read_records(
    client: KinesisClient,
    stream: str,
    *,
    from_beginning: bool = True,
    limit: int | None = None,
    follow: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[KinesisRecord]:
    """Look at a stream without leaving a trace.

    Args:
        client: the API.
        stream: name.
        from_beginning: from the oldest record kept; otherwise what arrives from now on.
        limit: most records.
        follow: go on at the end of the stream; otherwise end when every shard was read to its end once.
        stopped: asked between pages.

    Yields:
        Records; in order within a shard, children after their parents.
    """
    listing = list_shards(client, stream)
    start = "earliest" if from_beginning else "latest"
    now = int(listing.exchange.latest * 1000)
    positions = {
        shard: Position("time", time=position.time) if position.kind == "latest" else position
        for shard, position in first_positions(listing.shards, start, now).items()
    }
    reader = _Look(client, stream, listing.shards, positions)
    left = limit
    while not stopped():
        for record in reader.round():
            if left == 0:
                return
            yield record
            left = None if left is None else left - 1
        if left == 0 or (reader.at_end and not follow):
            return
        if reader.at_end and client.clock.wait(client.stopped, POLL_SECONDS):
            return


class _Look:
    """Reads all shards in turn in one thread; opens children when their parents are done."""

    def __init__(
        self, client: KinesisClient, stream: str, shards: Mapping[str, Shard], positions: dict[str, Position]
    ) -> None:
        self._client = client
        self._stream = stream
        self._positions = positions
        self._cursors: dict[str, ShardCursor] = {}
        self.at_end = False
        for shard, position in positions.items():
            if not position.closed:
                self._open(shards[shard], position)

    def _open(self, shard: Shard, position: Position) -> None:
        self._positions[shard.id] = position
        self._cursors[shard.id] = ShardCursor(
            self._client, self._stream, shard.id, position, ending=shard.ending, hashes=shard.hashes
        )

    def round(self) -> Iterator[KinesisRecord]:
        """One page of every shard."""
        self.at_end = True
        for shard, cursor in list(self._cursors.items()):
            page = cursor.next_page()
            yield from (_record(shard, raw) for raw in page.records)
            self.at_end = self.at_end and page.at_end
            if page.finished:
                self._close(shard)

    def _close(self, shard: str) -> None:
        del self._cursors[shard]
        self._positions[shard] = self._positions[shard].ended()
        shards = list_shards(self._client, self._stream).shards
        for child in startable(shards, self._positions):
            self._open(shards[child], TRIM_HORIZON)
            self.at_end = False


def _record(shard: str, raw: RawRecord) -> KinesisRecord:
    return KinesisRecord(shard, raw["SequenceNumber"], raw["PartitionKey"], record_data(raw), arrival_millis(raw))
