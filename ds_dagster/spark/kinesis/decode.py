"""Records of a GetRecords answer → one Arrow record batch; aggregated records are unpacked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pybase64 import b64decode

from ds_dagster.kinesis_aggregates import ENCODED_MAGIC, HashRange, open_aggregate

RECORD_SCHEMA = pa.schema(
    [
        ("data", pa.binary()),
        ("partition_key", pa.string()),
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("shard_id", pa.string()),
        ("approximate_arrival_timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""Columns of the source; :data:`RECORD_DDL` has the same columns for Spark."""

RECORD_DDL = (
    "data binary, partition_key string, sequence_number string, sub_sequence_number bigint, shard_id string, "
    "approximate_arrival_timestamp timestamp"
)

ARRIVAL = "ApproximateArrivalTimestamp"
SUB = "SubSequenceNumber"
"""A field of our own, only in records from an aggregate."""
RawRecord = Mapping[str, Any]


def arrival_millis(record: RawRecord) -> int:
    """Arrival in epoch milliseconds (the API has seconds with a fraction); 0 if the server sends none."""
    return int((record.get(ARRIVAL) or 0) * 1000 + 0.5)


def arrived_at(batch: pa.RecordBatch, row: int) -> int:
    """Arrival of a row in epoch milliseconds."""
    return int(batch.column("approximate_arrival_timestamp")[row].value) // 1000


def sub_number(record: RawRecord) -> int:
    """Number of a record inside its aggregate, from 0; 0 also for an ordinary record."""
    return int(record.get(SUB, 0))


def record_data(record: RawRecord) -> bytes:
    """The record's data, decoded from base64."""
    data: str | bytes = record["Data"]
    return data if isinstance(data, bytes) else b64decode(data, None, True)


def has_aggregates(records: Sequence[RawRecord]) -> bool:
    """Whether any record may be an aggregate; checks the first five characters of each."""
    return any(record["Data"][:5] == ENCODED_MAGIC for record in records)


def take_apart(records: Sequence[RawRecord], hashes: Callable[[], HashRange]) -> list[RawRecord]:
    """The records, each aggregate replaced by the records in it, with ``Data`` in bytes and their number as ``SUB``.

    Args:
        records: of one shard.
        hashes: returns the shard's hash keys; called only if there is an aggregate.
    """
    taken_apart: list[RawRecord] = []
    for record in records:
        aggregated = record["Data"].startswith(ENCODED_MAGIC)
        inside = open_aggregate(record_data(record), hashes()) if aggregated else None
        if inside is None:
            taken_apart.append(record)
            continue
        number, arrival = record["SequenceNumber"], record.get(ARRIVAL)
        taken_apart += [
            {"SequenceNumber": number, ARRIVAL: arrival, "PartitionKey": key, "Data": data, SUB: sub}
            for sub, (key, data) in enumerate(inside)
        ]
    return taken_apart


def decode_records(records: Sequence[RawRecord], shard: str) -> pa.RecordBatch:
    """The Arrow batch of one shard's records, in their order."""
    # does not call arrival_millis() and record_data(): this is the hot path
    seconds = pa.array([record.get(ARRIVAL) for record in records], pa.float64()).fill_null(0.0)
    millis = pc.floor(pc.add(pc.multiply(seconds, 1000.0), 0.5)).cast(pa.int64())
    if any(SUB in record for record in records):
        texts = [record["Data"] for record in records]
        data = [text if type(text) is bytes else b64decode(text, None, True) for text in texts]
        subs = [record.get(SUB, 0) for record in records]
    else:
        data, subs = [b64decode(record["Data"], None, True) for record in records], None
    return pa.RecordBatch.from_arrays(
        [
            pa.array(data, pa.binary()),
            pa.array([record["PartitionKey"] for record in records], pa.string()),
            pa.array([record["SequenceNumber"] for record in records], pa.string()),
            pa.repeat(pa.scalar(0, pa.int64()), len(records)) if subs is None else pa.array(subs, pa.int64()),
            pa.repeat(pa.scalar(shard, pa.string()), len(records)),
            millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        ],
        schema=RECORD_SCHEMA,
    )
