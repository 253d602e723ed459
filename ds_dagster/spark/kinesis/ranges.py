"""Reads exactly the records between two positions of a shard again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ds_dagster.errors import DsError, error
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import ShardCursor
from ds_dagster.spark.kinesis.decode import RawRecord, decode_records, sub_number
from ds_dagster.spark.kinesis.offsets import ShardPosition, sequence_key


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The records (start, end] of a shard, and a copy of them if there is one.

    Attributes:
        path: spool file with the records, on the machine that planned the batch; empty if there is none.
        payload: that file's content, for tasks on other machines; empty if it is not shipped.
    """

    shard: str
    start: ShardPosition
    end: ShardPosition
    path: str = ""
    payload: bytes = field(default=b"", repr=False)

    @property
    def rows(self) -> int:
        """Number of records in the range."""
        return self.end.count - self.start.count


def read_range(
    client: KinesisClient, stream: str, wanted: ShardRange, missing: Callable[[int], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The range's records from the stream, in order.

    Args:
        client: the API.
        stream: name of the stream.
        wanted: the range.
        missing: called with the number of records that no longer exist; None: they are an error.

    Raises:
        UserError: KINESIS_RANGE_TRIMMED, if some records no longer exist.
    """
    read_rows = 0
    try:
        for batch in _batches(client, stream, wanted):
            read_rows += batch.num_rows
            yield batch
    except DsError as gone:
        if missing is None or gone.condition != "KINESIS_SHARD_GONE":
            raise
    if missing is not None:
        missing(wanted.rows - read_rows)
    elif read_rows != wanted.rows:
        raise error(
            "KINESIS_RANGE_TRIMMED",
            missing=wanted.rows - read_rows,
            expected=wanted.rows,
            shard=wanted.shard,
            stream=stream,
            after=wanted.start.after or "its beginning",
            until=wanted.end.after,
        )


def _batches(client: KinesisClient, stream: str, wanted: ShardRange) -> Iterator[pa.RecordBatch]:
    cursor = ShardCursor(client, stream, wanted.shard, wanted.start)
    left, done = wanted.rows, False
    while left > 0 and not done:
        page = cursor.next_page()
        records = [record for record in page.records if _is_within(record, wanted.end)]
        done = page.at_end or page.finished or len(records) < len(page.records)
        left -= len(records)
        if records:
            yield decode_records(records, wanted.shard)


def _is_within(record: RawRecord, end: ShardPosition) -> bool:
    if end.sub >= 0 and record["SequenceNumber"] == end.after:
        return sub_number(record) <= end.sub
    return sequence_key(record["SequenceNumber"]) <= sequence_key(end.after)
