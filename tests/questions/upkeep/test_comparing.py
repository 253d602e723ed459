"""Differences of tables by key, against a comparison in plain Python."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.questions.upkeep.comparing import DOUBLE_TOLERANCE, FLOAT_TOLERANCE, MOST_SAMPLES, Counts, compared
from ds_dagster.questions.upkeep.difference import sample_text

Rows = dict[tuple[object, object], dict[str, object]]


def table(rows: Rows, columns: tuple[str, ...]) -> pa.Table:
    keys = list(rows)
    parts = {"k": pa.array([k for k, _ in keys], pa.int64()), "l": pa.array([other for _, other in keys], pa.string())}
    parts |= {name: pa.array([rows[key][name] for key in keys], pa.float64()) for name in columns}
    return pa.table(parts)


def model(old: Rows, new: Rows, names: tuple[str, ...]) -> tuple[int, int, int, dict[str, int]]:
    both = old.keys() & new.keys()
    by_column = {name: sum(old[key][name] != new[key][name] for key in both) for name in names}
    changed = sum(any(old[key][name] != new[key][name] for name in names) for key in both)
    return len(new.keys() - both), len(old.keys() - both), changed, {n: c for n, c in by_column.items() if c}


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_a_plain_comparison(seed: int) -> None:
    draw = random.Random(seed)
    keys = [(k, other) for k in (None, 1, 2, 3, 4, 5) for other in (None, "a", "b")]
    sides: list[Rows] = [
        {key: {name: draw.choice((None, 0.0, 1.5)) for name in "xy"} for key in keys if draw.random() < 0.7}
        for _ in range(2)
    ]
    result = compared(table(sides[0], ("x", "y")), table(sides[1], ("y", "x")), ["k", "l"])
    assert (result.added, result.removed, result.changed, dict(result.columns)) == model(*sides, ("x", "y"))
    assert len(result.samples) == min(result.added + result.removed + result.changed, MOST_SAMPLES)


def is_equal(counts: Counts) -> bool:
    return not (counts.added or counts.removed or counts.changed or counts.columns or counts.samples)


def test_equal_tables_have_no_difference() -> None:
    rows: Rows = {(1, "a"): {"x": None}, (None, None): {"x": 2.0}}
    assert is_equal(compared(table(rows, ("x",)), table(dict(reversed(rows.items())), ("x",)), ["k", "l"]))
    assert is_equal(compared(table({}, ("x",)), table({}, ("x",)), ["k", "l"]))


def test_only_columns_of_both_are_compared() -> None:
    before = pa.table({"k": [1, 2], "n": pa.array([1, 2], pa.int32()), "old": ["x", "y"]})
    after = pa.table({"k": [2, 1], "n": pa.array([2, 7], pa.int64()), "new": ["x", "y"]})
    result = compared(before, after, ["k"])
    assert (result.changed, dict(result.columns)) == (1, {"n": 1})
    assert result.samples == ({"key": {"k": "1"}, "before": {"n": "1"}, "after": {"n": "7"}},)


def test_samples_say_what_happened() -> None:
    before = pa.table({"a b": [1, 2], "n": [1, 2]})
    after = pa.table({"a b": [2, 3], "n": [5, 6]})
    assert [sample_text(sample) for sample in compared(before, after, ["a b"]).samples] == [
        '- {"a b": "1"}  {"n": "1"}',
        '~ {"a b": "2"}  {"n": "2"} → {"n": "5"}',
        '+ {"a b": "3"}  {"n": "6"}',
    ]


INF, NAN = math.inf, math.nan
PLACES = pa.struct([("x", pa.float64()), ("name", pa.string())])
SAME: dict[str, tuple[pa.DataType, Any, pa.DataType, Any]] = {
    "last digits": (pa.float64(), 0.1 + 0.2 + 0.3, pa.float64(), 0.3 + 0.2 + 0.1),
    "of large numbers": (pa.float64(), 1e300, pa.float64(), 1e300 * (1 + DOUBLE_TOLERANCE / 2)),
    "NaN": (pa.float64(), NAN, pa.float64(), NAN),
    "infinity": (pa.float64(), -INF, pa.float64(), -INF),
    "two zeros": (pa.float64(), 0.0, pa.float64(), -0.0),
    "a NULL": (pa.float64(), None, pa.float64(), None),
    "of FLOAT": (pa.float32(), 1.0, pa.float32(), 1.0 + FLOAT_TOLERANCE / 2),
    "FLOAT and DOUBLE": (pa.float32(), 0.1, pa.float64(), 0.1),
    "BIGINT and DOUBLE": (pa.int64(), 3, pa.float64(), 3.0),
    "BIGINT and VARCHAR": (pa.int64(), 3, pa.string(), "3"),
    "BIGINT and DECIMAL": (pa.int64(), 300, pa.decimal128(12, 2), Decimal("300.00")),
    "two scales": (pa.decimal128(10, 2), Decimal("-0.50"), pa.decimal128(38, 10), Decimal("-0.5")),
    "in an ARRAY": (pa.list_(pa.float64()), [0.1 + 0.2, NAN, None], pa.list_(pa.float64()), [0.3, NAN, None]),
    "in a STRUCT": (PLACES, {"x": 0.1 + 0.2, "name": "a"}, PLACES, {"x": 0.3, "name": "a"}),
    "in a MAP": (
        pa.map_(pa.string(), pa.float64()),
        [("a", 0.1 + 0.2), ("b", 1.0)],
        pa.map_(pa.string(), pa.float64()),
        [("b", 1.0), ("a", 0.3)],
    ),
    "in an ARRAY of them": (pa.list_(PLACES), [{"x": 0.1 + 0.2}, None], pa.list_(PLACES), [{"x": 0.3}, None]),
}
OTHER: dict[str, tuple[pa.DataType, Any, pa.DataType, Any]] = {
    "more than the tolerance": (pa.float64(), 1.0, pa.float64(), 1.0 + 2 * DOUBLE_TOLERANCE),
    "FLOAT, more than its own": (pa.float32(), 1.0, pa.float32(), 1.0 + 2 * FLOAT_TOLERANCE),
    "NaN and a number": (pa.float64(), NAN, pa.float64(), 1.0),
    "infinity and a number": (pa.float64(), 1e308, pa.float64(), INF),
    "both infinities": (pa.float64(), -INF, pa.float64(), INF),
    "NaN and infinity": (pa.float64(), NAN, pa.float64(), INF),
    "a NULL and a number": (pa.float64(), None, pa.float64(), 0.0),
    "a NULL and NaN": (pa.float64(), NAN, pa.float64(), None),
    "two whole numbers": (pa.int64(), 2**62, pa.int64(), 2**62 + 1),
    "BIGINT and DECIMAL": (pa.int64(), 300, pa.decimal128(12, 2), Decimal("3.00")),
    "two times": (pa.timestamp("us"), 1_000_000, pa.timestamp("us"), 1_000_001),
    "order of an ARRAY": (pa.list_(pa.int64()), [1, 2], pa.list_(pa.int64()), [2, 1]),
    "length of an ARRAY": (pa.list_(pa.int64()), [1, 2], pa.list_(pa.int64()), [1]),
    "an empty ARRAY and NULL": (pa.list_(pa.int64()), [], pa.list_(pa.int64()), None),
    "a field of a STRUCT": (PLACES, {"x": 1.0, "name": "a"}, PLACES, {"x": 1.0, "name": "b"}),
    "a number in a STRUCT": (PLACES, {"x": 1.0, "name": "a"}, PLACES, {"x": 1.1, "name": "a"}),
}


@pytest.mark.parametrize(("cases", "changed"), [(SAME, 0), (OTHER, 1)])
def test_which_values_are_equal(cases: dict[str, tuple[pa.DataType, Any, pa.DataType, Any]], changed: int) -> None:
    """Both ways round, as the first of three rows."""
    wrong = []
    for name, (old_type, old, new_type, new) in cases.items():
        sides = (old_type, old), (new_type, new)
        for before, after in (sides, sides[::-1]):
            tables = [
                pa.table({"k": [1, 2, 3], "x": pa.array([value, None, value], type_), "y": ["a", "b", "c"]})
                for type_, value in (before, after)
            ]
            result = compared(*tables, ["k"])
            if (result.changed, dict(result.columns)) != ((2, {"x": 2}) if changed else (0, {})):
                wrong.append((name, before, after, result))
    assert wrong == []


def test_a_key_is_found_in_another_type_of_number() -> None:
    before = pa.table({"k": pa.array([1, 2], pa.int64()), "x": [0.5, 0.1 + 0.2]})
    after = pa.table({"k": pa.array([1, 2], pa.decimal128(12, 2)), "x": [0.25, 0.3]})
    result = compared(before, after, ["k"])
    assert (result.added, result.removed, dict(result.columns)) == (0, 0, {"x": 1})
    assert [sample["key"] for sample in result.samples] == [{"k": "1"}]
