"""A stream of records in memory, in the shape of :data:`ds_dagster.spark.queries.sources.SourceProvider`, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ds_dagster.spark.gateway import package

Parts = tuple[bytes | None, bytes | None, int, str, str]
"""Key, value, epoch milliseconds, partition and order of a record."""
_NONE = (-1).to_bytes(4, "big", signed=True)


class MemoryRecords:
    """Records that a query reads as from a broker, without a step that decodes them.

    Args:
        spark: session whose JVM was started with our jar.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._java = package(spark, "dsdagster").record.MemoryRecords
        self._stream: Any = self._java.stream(spark._jsparkSession)

    def add(self, records: Iterable[Parts]) -> None:
        """Add records as one batch, with one call into the JVM."""
        self._java.add(self._stream, b"".join(map(_framed, records)))

    def frame(self) -> DataFrame:
        """The records: ``key`` and ``value`` BINARY, ``timestamp`` TIMESTAMP, ``partition`` and ``order`` STRING."""
        return DataFrame(self._stream.toDF(), self.spark)


def _framed(record: Parts) -> bytes:
    """Each part of a record after its length in four bytes, -1 for None."""
    key, value, at, partition, order = record
    parts = (key, value, str(at).encode(), partition.encode(), order.encode())
    return b"".join(_NONE if part is None else len(part).to_bytes(4, "big") + part for part in parts)
