"""Comparisons with times in Snowflake: its columns have nanoseconds, and we read them cut to microseconds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from ds_dagster.catalog.reading.wanted import Comparison, Operator, Wanted
from ds_dagster.datatypes import BIGINT, TIMESTAMP, TIMESTAMP_LTZ
from ds_dagster.stores.snowflake.lookup import in_nanoseconds

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001, in UTC
HOLDS: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def holds(comparison: Comparison, value: int, unit: int) -> bool:
    """Whether a number of units of 1/unit microseconds satisfies a comparison."""
    constants = [(time - EPOCH) // timedelta(microseconds=1) * unit for time in comparison.values]
    if comparison.operator == "in":
        return value in constants
    return HOLDS[comparison.operator](value, constants[0])


@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMP_LTZ])
def test_no_row_is_lost_and_a_limit_counts_rows_that_match(type_: Any) -> None:
    cases: list[tuple[Operator, tuple[int, ...]]] = [*product(HOLDS, [(-2,), (0,), (3,)]), ("in", (-2, 1, 3))]
    for name, constants in cases:
        asked = Comparison("t", type_, name, tuple(map(at, constants)))
        made = in_nanoseconds(Wanted((asked,), 5))
        for nanos in range(-5000, 5000, 100):
            there = all(holds(comparison, nanos, 1000) for comparison in made.comparisons)
            read = holds(asked, nanos // 1000, 1)
            assert there or not read, f"{nanos} ns is lost by {name} {constants}"
            assert there == read or made.limit is None, f"{nanos} ns takes the place of a row of {name} {constants}"


def test_what_is_not_a_time_stays() -> None:
    wanted = Wanted((Comparison("n", BIGINT, "=", (1,)), Comparison("n", BIGINT, "in", (1, 2))), 3)
    assert in_nanoseconds(wanted) == wanted


def test_the_last_microsecond_is_compared_after_reading() -> None:
    last = Comparison("t", TIMESTAMP, "<=", (datetime(9999, 12, 31, 23, 59, 59, 999_999),))  # noqa: DTZ001, in UTC
    assert in_nanoseconds(Wanted((last,), 3)) == Wanted()
