"""Which rows come to Spark with the plan of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import ArrayType, DataType

from ds_dagster.spark.postgres_cdc import source
from ds_dagster.spark.postgres_cdc.live.wire import Fetch
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from tests.spark.postgres_cdc.reading import BIG, TEXT, struct

LIVE: Any = ("address", Fetch("member", 1, 2))
SMALL = source._Range(1, 2, LIVE)


@pytest.mark.parametrize(
    ("type_", "parts", "is_sent"),
    [
        (TEXT, [SMALL], True),
        (TEXT, [source._Range(1, 2)], False),
        (TEXT, [source._Range(1, 2 + source.INLINE_BYTES, LIVE)], False),
        (TEXT, [source._Part(1, 0)], False),
        (TEXT, [SMALL, SMALL], False),
        (TEXT, [], False),
        (ArrayType(BIG), [SMALL], False),
    ],
)
def test_small_batches_of_the_session_without_arrays(
    monkeypatch: pytest.MonkeyPatch, type_: DataType, parts: list[Any], is_sent: bool
) -> None:
    monkeypatch.setattr(source, "fetch", lambda *_: [])
    columns = struct(id=BIG, v=type_).json()
    options = {"connector": "a:B", "store": "pg", "tables": "s.t", "slot": "slot", "key": "id", "columns": columns}
    reader = source.ChangesReader(CdcOptions.parse(options))
    rows = reader.rows_of([InputPartition(part) for part in parts])
    assert (rows is not None) == is_sent
    assert list(rows or ()) == []


def test_a_hub_that_does_not_answer_leaves_them_to_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "fetch", lambda *_: None)
    columns = struct(id=BIG).json()
    options = {"connector": "a:B", "store": "pg", "tables": "s.t", "slot": "slot", "key": "id", "columns": columns}
    assert source.ChangesReader(CdcOptions.parse(options)).rows_of([InputPartition(SMALL)]) is None
