"""Rows of small batches are sent to Spark with the plan of the batch, as Spark does it for its simple readers.

Otherwise a task starts or wakes a Python worker, sends it the reader and the partition, and gets the rows from it. A
source takes part with a method ``rows_of(partitions)``, which returns record batches, or None if tasks should read. The
names here are not public in PySpark; where they are missing, tasks read all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import datasource_internal

PARTITIONS = "partitions_func"
"""Name of the function of Spark's runner that answers a request for the partitions of a batch."""
SIMPLE = "_SimpleStreamReaderWrapper"
"""Class of readers that the function asks for rows."""


def send_rows(runner: Any) -> None:
    """Let Spark's runner, in this process, send rows with the partitions of sources that have ``rows_of``.

    Args:
        runner: the module :data:`ds_dagster.spark.planner.hand_over.RUNNER`.
    """
    answer, base = getattr(runner, PARTITIONS, None), getattr(datasource_internal, SIMPLE, None)
    if answer is not None and base is not None:
        setattr(runner, PARTITIONS, _answering(answer, base))


def _answering(answer: Callable[..., None], base: type) -> Callable[..., None]:
    class WithRows(base):  # type: ignore[misc]  # known at run time only
        """A reader as Spark's function takes it."""

        def __init__(self, reader: Any) -> None:
            self._reader = reader
            self._partitions: Sequence[Any] = ()

        def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[Any]:
            self._partitions = self._reader.partitions(start, end)
            return self._partitions

        def getCache(self, *_: Any) -> Iterator[Any] | None:  # noqa: N802
            rows: Iterator[Any] | None = self._reader.rows_of(self._partitions)
            return rows

    def answered(reader: Any, *rest: Any) -> None:
        answer(WithRows(reader) if hasattr(reader, "rows_of") else reader, *rest)

    return answered
