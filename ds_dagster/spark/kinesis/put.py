"""Writing records: PutRecords requests, with one lane per group of keys.

PutRecords may accept some entries of a request and refuse others, and it continues after a refused entry. So a request
has at most one record of a partition key, and a key's next record is sent only after the previous one was accepted.
This keeps the order of every key, and only refused records are sent again. Lanes work in parallel; a key stays in its
lane.
"""

from __future__ import annotations

import binascii
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ds_dagster.errors import DsError, error
from ds_dagster.spark.kinesis.client import THROTTLING, KinesisClient
from ds_dagster.spark.kinesis.cursor import stream_summary
from ds_dagster.spark.kinesis.timing import Retries

# https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
REQUEST_RECORDS = 500
REQUEST_BYTES = 5 * 1000 * 1000
"""AWS accepts 10 MiB per request since late 2025, other servers 5; a larger record is sent alone."""
RECORD_BYTES = 1024 * 1024
KEY_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class OutRecord:
    """One record to write; empty ``data`` deletes its key."""

    key: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of data and key, which count for the limits of records and requests."""
        return len(self.data) + len(self.key.encode())


def check_record(stream: str, record: OutRecord, limit: int = RECORD_BYTES) -> None:
    """Refuse a record that Kinesis would refuse on every attempt.

    Args:
        stream: name, for messages.
        record: the record to write.
        limit: most bytes of a record, key and data together.

    Raises:
        UserError: KINESIS_PARTITION_KEY_INVALID, KINESIS_RECORD_TOO_LARGE.
    """
    if not 1 <= len(record.key) <= KEY_CHARACTERS:
        raise error("KINESIS_PARTITION_KEY_INVALID", stream=stream, length=len(record.key), limit=KEY_CHARACTERS)
    if record.size > limit:
        raise error("KINESIS_RECORD_TOO_LARGE", stream=stream, size=record.size, limit=limit, key=record.key)


def record_limit(client: KinesisClient, stream: str, largest: int) -> int:
    """Most bytes of a record: 1 MiB, or the stream's own limit (up to 10 MiB), which is requested only if ``largest``,
    the size of the largest record, is over 1 MiB."""
    if largest <= RECORD_BYTES:
        return RECORD_BYTES
    return int(stream_summary(client, stream).get("MaxRecordSizeInKiB") or 0) * 1024 or RECORD_BYTES


class Putter:
    """Writes records to one stream; keeps the order of each key.

    Args:
        client: the API.
        stream: name of the stream.
        lanes: number of parallel requests.
    """

    def __init__(self, client: KinesisClient, stream: str, lanes: int) -> None:
        self._client = client
        self._stream = stream
        self._lanes = lanes

    def put(self, records: Sequence[OutRecord]) -> None:
        """Write all records; returns when all are accepted.

        Raises:
            UserError: a record or key is over Kinesis's limits; then nothing of this call is written.
            ExternalError: KINESIS_THROTTLED, KINESIS_REFUSED or KINESIS_UNREACHABLE beyond the retry budget.
        """
        limit = record_limit(self._client, self._stream, max((record.size for record in records), default=0))
        for record in records:
            check_record(self._stream, record, limit)
        lanes: list[list[OutRecord]] = [[] for _ in range(self._lanes)]
        for record in records:
            lanes[zlib.crc32(record.key.encode()) % self._lanes].append(record)
        busy = [lane for lane in lanes if lane]
        if len(busy) == 1:
            self._put_lane(busy[0])
            return
        with ThreadPoolExecutor(max(1, len(busy)), thread_name_prefix="ds-kinesis-put") as threads:
            # list() raises the first failure; leaving the block waits for the other lanes
            list(threads.map(self._put_lane, busy))

    def _put_lane(self, records: Iterable[OutRecord]) -> None:
        queues: dict[str, deque[OutRecord]] = {}
        for record in records:
            queues.setdefault(record.key, deque()).append(record)
        ready = deque(queues)
        backoff = Retries(self._client.policy, self._client.clock, self._client.stopped)
        while ready:
            wave = _next_wave(ready, queues)
            failed = self._send([queues[key][0] for key in wave])
            for key in wave:
                if key not in failed:
                    queues[key].popleft()
            ready.extend(key for key in wave if key not in failed and queues[key])
            if len(failed) < len(wave):
                backoff.reset()
            if failed:
                # refused keys go first, in their order
                ready.extendleft(key for key in reversed(wave) if key in failed)
                if not backoff.pause():
                    raise self._failure(failed)

    def _send(self, records: Sequence[OutRecord]) -> Mapping[str, Mapping[str, Any]]:
        """Send one request. Returns the answers for refused entries, by partition key."""
        encode = binascii.b2a_base64
        entries = [{"Data": encode(r.data, newline=False).decode(), "PartitionKey": r.key} for r in records]
        reply = self._client.call("PutRecords", {"StreamName": self._stream, "Records": entries})
        if not reply.body.get("FailedRecordCount"):
            return {}
        answers = reply.body["Records"]
        return {r.key: answer for r, answer in zip(records, answers, strict=True) if answer.get("ErrorCode")}

    def _failure(self, failed: Mapping[str, Mapping[str, Any]]) -> DsError:
        answer = next(iter(failed.values()))
        code, detail = str(answer["ErrorCode"]), str(answer.get("ErrorMessage", ""))
        operation, seconds = "PutRecords", self._client.policy.budget
        if code in THROTTLING:
            name = "KINESIS_THROTTLED"
            return error(name, operation=operation, stream=self._stream, seconds=seconds, detail=detail)
        return error("KINESIS_REFUSED", operation=operation, stream=self._stream, code=code, detail=detail)


def _next_wave(ready: deque[str], queues: Mapping[str, deque[OutRecord]]) -> list[str]:
    """Keys whose first record fits into one request; always at least one."""
    wave: list[str] = []
    size = 0
    while ready and len(wave) < REQUEST_RECORDS:
        record = queues[ready[0]][0]
        if wave and size + record.size > REQUEST_BYTES:
            break
        size += record.size
        wave.append(ready.popleft())
    return wave
