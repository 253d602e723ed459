"""The Spark side of the sink: Arrow batches in, PutRecords out. At least once: a replayed batch is written again.

Kinesis has no transactions and keeps nothing for a writer, so whether a batch was written is unknown: neither
CHECKPOINT_BEHIND_SINK nor SINK_BEHIND_CHECKPOINT is ever noticed. A stream that was deleted and made again is
(TARGET_GONE): the checkpoint remembers when it was made, see :mod:`ds_dagster.spark.queries.sink_account`.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.options import Connection, KinesisOptions
from ds_dagster.spark.kinesis.put import OutRecord, Putter
from ds_dagster.spark.kinesis.timing import RetryPolicy


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task wrote."""

    rows: int


@crosses
class KinesisStreamWriter(DataSourceStreamArrowWriter):
    """Writes ``data`` (binary; empty or null is a delete) and ``partition_key`` (text; null gives a random one).

    Records of one key keep their order within a task, so a query has to bring a key's rows into one partition.
    """

    def __init__(self, options: KinesisOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows.

        Raises:
            UserError: a record or key is over Kinesis's limits.
            ExternalError: Kinesis throttles or does not answer beyond the retry budget.
        """
        return _write(self._options, iterator)


@crosses
class KinesisBatchWriter(DataSourceArrowWriter):
    """The same for one batch of a query in update mode, which Spark gives to no Python stream writer."""

    def __init__(self, options: KinesisOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; raises what :class:`KinesisStreamWriter` raises."""
        return _write(self._options, iterator)


def _write(options: KinesisOptions, iterator: Iterator[pa.RecordBatch]) -> Written:
    client = _client(options.connection, options.retry_seconds)
    putter = Putter(client, options.stream, options.lanes)
    rows = 0
    for batch in iterator:
        putter.put(_records(batch))
        rows += batch.num_rows
    return Written(rows)


@functools.lru_cache(maxsize=8)
def _client(connection: Connection, retry_seconds: float) -> KinesisClient:
    """A task lives for one batch, its process for many: they share credentials and open connections."""
    return KinesisClient(connection, RetryPolicy(budget=retry_seconds))


def _records(batch: pa.RecordBatch) -> list[OutRecord]:
    data = batch.column("data").to_pylist()
    keys = batch.column("partition_key").to_pylist()
    return [
        OutRecord(uuid.uuid4().hex if key is None else key, value or b"") for key, value in zip(keys, data, strict=True)
    ]
