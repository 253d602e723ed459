"""Writes repaired records back into a stream, in single requests that are never retried; finds records by their
place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.redriving import Put, RepairedRecord
from ds_dagster.errors import DsError, error
from ds_dagster.kinesis_aggregates import read_position
from ds_dagster.stores.entity_common import record_invalid

if TYPE_CHECKING:
    from ds_dagster.stores.kinesis.admin import KinesisAdmin

REQUEST_RECORDS, REQUEST_BYTES = 500, 4 << 20
"""Our limits of one PutRecords; https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html allows 500
records and 5 MiB."""
MAX_KEY_CHARACTERS = 256
"""Longest partition key; https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecord.html."""
SERVER_FAULT = 500
THROTTLING = ("ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException")
NEVER_SENT = ("EndpointConnectionError", "ConnectTimeoutError", "NoCredentialsError", "PartialCredentialsError")
"""Exceptions of a client that has sent nothing."""
EMPTY_PAGES = 5
"""Pages without a wanted record after which the next record is looked up by its number."""
GONE = ("InvalidArgumentException", "ResourceNotFoundException")
"""Errors of Kinesis for a place that is not in a stream."""


def put(admin: KinesisAdmin, stream: str, records: Sequence[RepairedRecord]) -> Put:
    """See ``catalog.redriving.PutsRecords``."""
    from botocore.exceptions import BotoCoreError, ClientError

    entries = [{"Data": record.value or b"", "PartitionKey": (record.key or b"").decode()} for record in records]
    action = f"send records into {stream} again"
    try:
        answer = admin._client(attempts=1).put_records(StreamName=stream, Records=entries)
    except ClientError as problem:
        is_known = problem.response["ResponseMetadata"]["HTTPStatusCode"] < SERVER_FAULT
        is_for_now = problem.response["Error"]["Code"] in THROTTLING
        return Put({}, admin._refusal(problem, action), is_known, is_for_now)
    except BotoCoreError as problem:
        return Put({}, admin._unreachable(problem, action), type(problem).__name__ in NEVER_SENT)
    outcomes = list(zip(records, answer["Records"], strict=True))
    written = {r.id: f"{o['ShardId']}/{o['SequenceNumber']}" for r, o in outcomes if not o.get("ErrorCode")}
    refused = [f"{o['ErrorCode']}: {o.get('ErrorMessage', '')}" for _, o in outcomes if o.get("ErrorCode")]
    if not refused:
        return Put(written)
    failed = error("STORE_CALL_FAILED", store=admin.store, action=action, detail=refused[0])
    return Put(written, failed, is_for_now=True)


def portions(stream: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
    """See ``catalog.redriving.PutsRecords``."""
    portion: list[RepairedRecord] = []
    keys: set[bytes | None] = set()
    length = 0
    for record in [replace(record, key=_key(stream, record)) for record in records]:
        own = len(record.value or b"") + len(record.key or b"")
        is_full = len(portion) == REQUEST_RECORDS or length + own > REQUEST_BYTES
        if portion and (is_full or record.key in keys):  # the records of a key keep their order
            yield portion
            portion, keys, length = [], set(), 0
        portion.append(record)
        keys.add(record.key)
        length += own
    if portion:
        yield portion


def _key(stream: str, record: RepairedRecord) -> bytes:
    """The record's partition key; without one, its hash."""
    if record.key is None:
        return hashlib.sha256(record.value or b"").hexdigest().encode()
    try:
        key = record.key.decode()
    except UnicodeDecodeError as problem:
        raise record_invalid((stream,), f"the partition key of {record.id} is not text") from problem
    if not 0 < len(key) <= MAX_KEY_CHARACTERS:
        reason = f"the partition key of {record.id} has {len(key)} characters, not 1 to {MAX_KEY_CHARACTERS}"
        raise record_invalid((stream,), reason)
    return record.key


def find(admin: KinesisAdmin, stream: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
    """See ``catalog.redriving.FindsRecords``; a position is a sequence number, with ``.n`` inside an aggregate."""
    shards = {shard["ShardId"] for shard in admin._shards(stream, only_open=False)}
    records: dict[tuple[str, str], RawRecord] = {}
    for shard, group in groupby(sorted(set(places)), key=lambda place: place[0]):
        if shard in shards:
            positions = [position for _, position in group]
            records |= {(shard, position): record for position, record in _in_shard(admin, stream, shard, positions)}
    return records


def _in_shard(
    admin: KinesisAdmin, stream: str, shard: str, positions: Sequence[str]
) -> Iterator[tuple[str, RawRecord]]:
    """Look up the first place, read on as long as wanted records come, then look up the next place."""
    from ds_dagster.stores.kinesis.admin import _records

    wanted = sorted({read_position(position)[0] for position in positions})
    while wanted:
        first = wanted[0]
        for raw in _from(admin, stream, shard, wanted):
            number = int(raw["SequenceNumber"])
            if number in wanted:
                inside = list(_records(shard, [raw]))
                yield from ((position, r) for position in positions if (r := _at(inside, number, position)))
            wanted[:] = [later for later in wanted if later > number]
        if wanted and wanted[0] == first:
            del wanted[0]  # neither it nor a later record was read: it is gone


def _from(admin: KinesisAdmin, stream: str, shard: str, wanted: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Records from the first wanted one, until no more are wanted, the shard ends, or :data:`EMPTY_PAGES` pages had no
    wanted record."""
    iterator, empty = iterator_at(admin, stream, shard, wanted[0]), 0
    while iterator and wanted and empty < EMPTY_PAGES:
        count = len(wanted)
        answer = admin._call(f"read {stream}", "get_records", ShardIterator=iterator, Limit=1000)
        yield from answer["Records"]
        empty = empty + 1 if len(wanted) == count else 0
        is_end = not answer["Records"] and not answer.get("MillisBehindLatest")
        iterator = None if is_end else answer.get("NextShardIterator")


def iterator_at(admin: KinesisAdmin, stream: str, shard: str, number: int) -> Any:
    """An iterator at a sequence number, None if the stream has no such place."""
    place = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(number)}
    try:
        answer = admin._call(f"read {stream}", "get_shard_iterator", StreamName=stream, ShardId=shard, **place)
    except DsError as problem:
        if problem.detail.partition(":")[0] in GONE:
            return None
        raise
    return answer["ShardIterator"]


def _at(inside: Sequence[RawRecord], number: int, position: str) -> RawRecord | None:
    """The record at a position, if the position has this sequence number; ``inside``: records of that number."""
    sequence, place = read_position(position)
    return inside[place] if sequence == number and place < len(inside) else None
