"""Topics in memory, and the sources that hand their records to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.store import ReadOptions
from ds_dagster.spark.memory_records import MemoryRecords


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic; ``at``: epoch milliseconds of its own timestamp."""

    key: bytes | None
    value: bytes | None
    at: int
    partition: str
    position: int


@dataclass(slots=True)
class Topic:
    """Records in order. A batch of a query is appended once, however often it is written (as by a real sink's
    ledger)."""

    name: str
    records: list[Record] = field(default_factory=list)
    _positions: dict[str, int] = field(default_factory=dict)
    _ledger: set[tuple[str, int]] = field(default_factory=set)

    def append(self, parts: Sequence[tuple[bytes | None, bytes | None]], at: int, partition: str = "0") -> None:
        """Add records as (key, value)."""
        for key, value in parts:
            position = self._positions.get(partition, 0)
            self._positions[partition] = position + 1
            self.records.append(Record(key, value, at, partition, position))

    def write(self, writer: str, epoch: int, parts: Sequence[tuple[bytes | None, bytes | None]], at: int) -> None:
        """Add the records that a query wrote in one batch; a replayed batch changes nothing."""
        if (writer, epoch) not in self._ledger:
            self._ledger.add((writer, epoch))
            self.append(parts, at)


class MemorySource:
    """One scan's view of a topic: a Spark memory stream that outlives restarts of its query.

    Args:
        reading: records before its starting timestamp or offsets are not handed to Spark. Earliest and latest are the
            same: a topic of a case is empty when its queries start.
    """

    def __init__(self, spark: SparkSession, topic: Topic, reading: ReadOptions) -> None:
        self.topic = topic
        self.since = reading.starting_timestamp
        self.offsets = {str(partition): offset for partition, offset in reading.starting_offsets}
        self.read = 0
        self._stream = MemoryRecords(spark)

    def feed(self) -> bool:
        """Hand the records since the last call to Spark, as one batch; returns whether there were any."""
        records = self.topic.records[self.read :]
        if not records:
            return False
        self.read += len(records)
        self._stream.add(
            (r.key, r.value, r.at, r.partition, f"{r.position:019d}") for r in records if self._is_wanted(r)
        )
        return True

    def _is_wanted(self, record: Record) -> bool:
        is_late_enough = self.since is None or record.at >= self.since
        return is_late_enough and record.position >= self.offsets.get(record.partition, 0)

    def frame(self) -> DataFrame:
        """The stream in the shape of :data:`ds_dagster.spark.queries.sources.SourceProvider`."""
        return self._stream.frame()
