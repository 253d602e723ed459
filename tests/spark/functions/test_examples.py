"""Examples of aggregates and of metadata give on Spark what they say; ``test_expressions.py`` has those of one row."""

from __future__ import annotations

import pytest

from ds_dagster.functions.group_function import EXAMPLE_COLUMNS, EXAMPLE_ROWS
from ds_dagster.functions.table import FUNCTIONS, GROUP_FUNCTIONS

NAMES = [column.split()[0] for column in EXAMPLE_COLUMNS.split(", ")]
EXAMPLES = [example for function in GROUP_FUNCTIONS.values() for example in function.examples]


def test_aggregates(bench):
    listed = ", ".join(f"{example.call} AS x{n}, {example.gives} AS y{n}" for n, example in enumerate(EXAMPLES))
    bench.compile(
        f"""CREATE STREAM s (g VARCHAR, {EXAMPLE_COLUMNS}) WITH ('topic' = 's', 'value.format' = 'json');
        CREATE CHANGELOG d AS SELECT g, {listed} FROM s GROUP BY g;"""
    )
    for at, row in enumerate(EXAMPLE_ROWS, 1):
        bench.send("s", {"g": "g", **dict(zip(NAMES, row, strict=True))}, at=at)
    (row,) = bench.run("d")
    wrong = [
        f"{example.call} is {row[f'x{n}']!r}, not {example.gives}"
        for n, example in enumerate(EXAMPLES)
        if not same(row[f"x{n}"], row[f"y{n}"])
    ]
    assert not wrong, "\n".join(wrong)


def same(value: object, expected: object) -> bool:
    return value == (pytest.approx(float(str(expected))) if isinstance(value, float) else expected)


def test_metadata_of_records(bench):
    shown = [FUNCTIONS[name].examples[0] for name in ("ROWTIME", "ROWKEY")]
    bench.compile(
        f"""CREATE STREAM s (n INTEGER) WITH ('topic' = 's', 'value.format' = 'json', 'key.format' = 'primitive',
          'key.type' = 'VARCHAR');
        CREATE STREAM d AS SELECT {", ".join(f"{one.call} AS x{n}, {one.gives} AS y{n}" for n, one in enumerate(shown))}
          FROM s;"""
    )
    bench.send("s", {"n": 1}, key="k", at=1_704_067_200_000)
    (row,) = bench.run("d")
    assert [row["x0"], row["x1"]] == [row["y0"], row["y1"]]
