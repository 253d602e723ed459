"""Topics in memory, and the sources that hand their records to Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.store import ReadOptions
from ds_dagster.spark.gateway import known_class
from ds_dagster.spark.session import class_name

_ROW = "array<struct<k string, v string, t bigint, p string, o string>>"


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
        self.spark = spark
        self.topic = topic
        self.since = reading.starting_timestamp
        self.offsets = {str(partition): offset for partition, offset in reading.starting_offsets}
        self.read = 0
        holder = known_class(spark, class_name("memory_stream", spark.version).removesuffix("$"))
        strings = known_class(spark, "org.apache.spark.sql.Encoders").STRING()
        self._stream: Any = holder.apply(spark._jsparkSession, 1, strings)

    def feed(self) -> bool:
        """Hand the records since the last call to Spark, as one batch; returns whether there were any."""
        records = self.topic.records[self.read :]
        if not records:
            return False
        self.read += len(records)
        rows = json.dumps([_shown(record) for record in records if self._is_wanted(record)])
        python = known_class(self.spark, "org.apache.spark.api.python.PythonUtils")
        self._stream.addData(python.toSeq([rows]))
        return True

    def _is_wanted(self, record: Record) -> bool:
        is_late_enough = self.since is None or record.at >= self.since
        return is_late_enough and record.position >= self.offsets.get(record.partition, 0)

    def frame(self) -> DataFrame:
        """The stream in the shape of :data:`ds_dagster.spark.queries.sources.SourceProvider`."""
        rows = DataFrame(self._stream.toDF(), self.spark)
        return rows.select(sf.inline(sf.from_json("value", _ROW))).select(
            sf.unhex("k").alias("key"),
            sf.unhex("v").alias("value"),
            sf.timestamp_millis("t").alias("timestamp"),
            sf.col("p").alias("partition"),
            sf.col("o").alias("order"),
        )


def _shown(record: Record) -> Mapping[str, object]:
    return {
        "k": None if record.key is None else record.key.hex(),
        "v": None if record.value is None else record.value.hex(),
        "t": record.at,
        "p": record.partition,
        "o": f"{record.position:019d}",
    }
