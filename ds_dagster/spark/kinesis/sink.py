"""The Spark side of the sink: Arrow batches in, PutRecords out. At least once: a replayed batch is written again.

Kinesis has no transactions and stores nothing for a writer, so it is unknown whether a batch was written:
CHECKPOINT_BEHIND_SINK and SINK_BEHIND_CHECKPOINT are never detected. A stream that was deleted and created again is
detected (TARGET_GONE): the checkpoint has its creation time, see :mod:`ds_dagster.spark.queries.sink_account`.
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
    """Number of rows that one task wrote."""

    rows: int


@crosses
class KinesisStreamWriter(DataSourceStreamArrowWriter):
    """Writes ``data`` (binary; empty or null is a delete) and ``partition_key`` (text; for null, a random key).

    Records of one key keep their order within a task, so a query must put a key's rows into one partition.
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
    """Writes one batch like :class:`KinesisStreamWriter`, for batches that Spark does not pass to a Python stream
    writer (queries in update mode, applications)."""

    def __init__(self, options: KinesisOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows; raises as :meth:`KinesisStreamWriter.write`."""
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
    """A client that the tasks of a process share: a task lives for one batch, its process for many."""
    return KinesisClient(connection, RetryPolicy(budget=retry_seconds))


def _records(batch: pa.RecordBatch) -> list[OutRecord]:
    data = batch.column("data").to_pylist()
    keys = batch.column("partition_key").to_pylist()
    return [
        OutRecord(uuid.uuid4().hex if key is None else key, value or b"") for key, value in zip(keys, data, strict=True)
    ]
