"""Rows for other programs, read back by the program they are for."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ds_dagster.cli.row_output import ROW_WRITERS

ROWS = [
    {"name": 'O"Neil, jr\t', "count": 3, "tags": ["a", "ä"], "note": None},
    {"name": "two\nlines", "count": None, "tags": [], "note": ""},
]


def written(shape: str) -> str:
    out = io.StringIO()
    write = ROW_WRITERS[shape](list(ROWS[0]), out)
    for row in ROWS:
        write(row)
    return out.getvalue()


@pytest.mark.parametrize(("shape", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_separated_values_are_read_back(shape: str, delimiter: str) -> None:
    rows = list(csv.DictReader(io.StringIO(written(shape)), delimiter=delimiter))
    assert rows == [
        {"name": 'O"Neil, jr\t', "count": "3", "tags": '["a", "ä"]', "note": ""},
        {"name": "two\nlines", "count": "", "tags": "[]", "note": ""},
    ]


def test_lines_of_json_are_read_back() -> None:
    assert [json.loads(line) for line in written("jsonl").splitlines()] == ROWS


def test_a_row_has_a_line_for_each_column() -> None:
    first = written("vertical").split("\n\n")[0]
    assert first.splitlines()[1:] == ["count  3", 'tags   ["a", "ä"]', "note   NULL"]
