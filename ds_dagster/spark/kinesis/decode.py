"""Records of a GetRecords answer → one Arrow record batch."""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

RECORD_SCHEMA = pa.schema(
    [
        ("data", pa.binary()),
        ("partition_key", pa.string()),
        ("sequence_number", pa.string()),
        ("shard_id", pa.string()),
        ("approximate_arrival_timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""What the source gives; :data:`RECORD_DDL` says the same to Spark."""

RECORD_DDL = (
    "data binary, partition_key string, sequence_number string, shard_id string, "
    "approximate_arrival_timestamp timestamp"
)

ARRIVAL = "ApproximateArrivalTimestamp"
RawRecord = Mapping[str, Any]


def arrival_millis(record: RawRecord) -> int:
    """Arrival in epoch milliseconds; the API speaks of seconds with a fraction, 0 where a server leaves it out."""
    return int((record.get(ARRIVAL) or 0) * 1000 + 0.5)


def decode_records(records: Sequence[RawRecord], shard: str) -> pa.RecordBatch:
    """Build the batch of one shard's records, in their order."""
    decode = binascii.a2b_base64
    # not by arrival_millis(): this is the hot path
    millis = pa.array([int((record.get(ARRIVAL) or 0) * 1000 + 0.5) for record in records], pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([decode(record["Data"]) for record in records], pa.binary()),
            pa.array([record["PartitionKey"] for record in records], pa.string()),
            pa.array([record["SequenceNumber"] for record in records], pa.string()),
            pa.repeat(pa.scalar(shard, pa.string()), len(records)),
            millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        ],
        schema=RECORD_SCHEMA,
    )
