"""Lists of a driver's values as Arrow: what ``pyarrow.array`` makes of them, without pandas."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.datatypes import Scalar
from ds_dagster.stores.lookup_rows import as_batches, constant, listed

LISTS: tuple[list[Any], ...] = (
    [],
    [None],
    [1, None, -(2**63), 2**63 - 1],
    [0],
    [1.5, None, float("inf"), -0.0],
    ["a", None, "", "ä€😀"],
    [None] * 9 + ["last"],
    ["x"] * 17,
    [True, None],
    [1, 2.5],
    [b"a", None],
    [Decimal("1.20"), None],
    [date(2024, 1, 31), None],
    [datetime(2024, 1, 31, tzinfo=timezone.utc)],
    [time(1, 2, 3)],
    [[1], None],
)


@pytest.mark.parametrize("values", LISTS, ids=repr)
def test_it_is_what_arrow_makes(values: list[Any]) -> None:
    made, expected = listed(values), pa.array(values)
    made.validate(full=True)
    assert (made.type, made.null_count) == (expected.type, expected.null_count)
    assert made.equals(expected)


@pytest.mark.parametrize("values", [[2**63], [1, "a"]], ids=repr)
def test_what_arrow_refuses_is_refused(values: list[Any]) -> None:
    for make in (listed, pa.array):
        with pytest.raises((OverflowError, pa.ArrowInvalid)):
            make(values)


def test_columns_of_every_type() -> None:
    columns = [("i", "BIGINT"), ("t", "VARCHAR"), ("b", "BOOLEAN"), ("at", "TIMESTAMP_LTZ"), ("n", "ARRAY<INTEGER>")]
    rows = [(1, "a", 1, "2024-01-31 23:59:59.000005", "[1]"), (None, None, None, None, None), (2, 7, 0, None, [2])]
    (batch,) = as_batches(rows, columns)
    assert batch.to_pylist() == [
        {"i": 1, "t": "a", "b": True, "at": datetime(2024, 1, 31, 23, 59, 59, 5, timezone.utc), "n": "[1]"},
        dict.fromkeys(["i", "t", "b", "at", "n"]),
        {"i": 2, "t": "7", "b": False, "at": None, "n": "[2]"},
    ]


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_LTZ"])
def test_a_server_reads_the_year_that_was_written(type_: str) -> None:
    """``1-01-01`` is 2001-01-01 for Postgres."""
    printed = constant(datetime(1, 1, 1, tzinfo=timezone.utc), Scalar(type_))
    assert printed is not None and "'0001-01-01 00:00:00.000000" in printed.sql(dialect="postgres")
