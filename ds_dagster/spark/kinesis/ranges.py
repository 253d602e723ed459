"""Reading exactly the records between two positions of a shard, once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import ShardCursor
from ds_dagster.spark.kinesis.decode import RawRecord, decode_records, sub_number
from ds_dagster.spark.kinesis.offsets import Position, sequence_key


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The records (start, end] of a shard, and the spool file that may still hold them (empty: read the stream)."""

    shard: str
    start: Position
    end: Position
    path: str = ""

    @property
    def rows(self) -> int:
        """How many records the range holds."""
        return self.end.count - self.start.count


def read_range(client: KinesisClient, stream: str, wanted: ShardRange) -> Iterator[pa.RecordBatch]:
    """The range's records from the stream, in order.

    Raises:
        UserError: KINESIS_RANGE_TRIMMED when not all of them are there any more.
    """
    cursor = ShardCursor(client, stream, wanted.shard, wanted.start)
    found, done = 0, False
    while found < wanted.rows and not done:
        page = cursor.next_page()
        records = [record for record in page.records if _is_within(record, wanted.end)]
        done = page.at_end or page.finished or len(records) < len(page.records)
        found += len(records)
        if records:
            yield decode_records(records, wanted.shard)
    if found != wanted.rows:
        raise error(
            "KINESIS_RANGE_TRIMMED",
            missing=wanted.rows - found,
            expected=wanted.rows,
            shard=wanted.shard,
            stream=stream,
            after=wanted.start.after or "its beginning",
            until=wanted.end.after,
        )


def _is_within(record: RawRecord, end: Position) -> bool:
    if end.sub >= 0 and record["SequenceNumber"] == end.after:
        return sub_number(record) <= end.sub
    return sequence_key(record["SequenceNumber"]) <= sequence_key(end.after)
