"""Rows that are sent with the plan of a batch."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import read_int, write_with_length
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import LongType, StructField, StructType

from ds_dagster.spark.planner.rows import PARTITIONS, send_rows

SCHEMA = StructType([StructField("n", LongType())])


class Bare:
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]


class Given(Bare):
    def __init__(self, rows: list[int] | None) -> None:
        self._rows = rows

    def rows_of(self, partitions: Sequence[InputPartition]) -> Any:
        assert [part.value for part in partitions] == [(1, 3)]
        if self._rows is None:
            return None
        return iter([pa.RecordBatch.from_pydict({"n": self._rows})] if self._rows else [])


@pytest.mark.parametrize(
    ("reader", "answer", "rows"),
    [
        (Bare(), runner.PREFETCHED_RECORDS_NOT_FOUND, None),
        (Given(None), runner.PREFETCHED_RECORDS_NOT_FOUND, None),
        (Given([]), runner.EMPTY_PYARROW_RECORD_BATCHES, None),
        (Given([1, 2]), runner.NON_EMPTY_PYARROW_RECORD_BATCHES, [1, 2]),
    ],
)
def test_what_spark_gets(reader: Any, answer: int, rows: list[int] | None) -> None:
    """The answer is one that Spark reads; a source without rows answers as always."""
    ours: Any = SimpleNamespace(**{PARTITIONS: getattr(runner, PARTITIONS)})
    send_rows(ours)
    request, sent = io.BytesIO(), io.BytesIO()
    for at in (1, 3):
        write_with_length(json.dumps({"at": at}).encode(), request)
    request.seek(0)
    ours.partitions_func(reader, None, SCHEMA, 100, request, sent)
    sent.seek(0)
    assert read_int(sent) == 1
    sent.read(read_int(sent))
    assert read_int(sent) == answer
    if rows is not None:
        read_int(sent)  # the begin of an Arrow stream
        assert pa.ipc.open_stream(sent).read_all().column("n").to_pylist() == rows


def test_a_runner_without_the_function_is_left_alone() -> None:
    other = SimpleNamespace()
    send_rows(other)
    assert vars(other) == {}
