"""Rows for other programs, read back by the program they are for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from ds_dagster.cli.output import LAYOUT, table_text, visible
from ds_dagster.cli.row_output import ROW_WRITERS, rows_text
from ds_dagster.datatypes import VARCHAR

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


ESCAPING = "\x1b[2J\r\nrow\t\x00\x7f\x9b\u202e\ud800ä"
SEEN = r"\x1B[2J\r\nrow\t\x00\x7F\x9B\u202E\uD800ä"


def test_text_for_people_shows_what_a_terminal_would_obey() -> None:
    """As psql does; a table has one line for each row."""
    assert visible(ESCAPING) == SEEN
    assert visible("two\n\tlines\x07", keep=LAYOUT) == "two\n\tlines\\x07"
    out = io.StringIO()
    ROW_WRITERS["vertical"](["n\x1b"], out)({"n\x1b": ESCAPING})
    assert out.getvalue() == f"n\\x1B  {SEEN}\n\n"
    assert table_text(["n\x1b"], [[ESCAPING]]).splitlines() == ["N\\x1B".ljust(len(SEEN)).rstrip(), SEEN]
    rows = rows_text([("tags", VARCHAR)], [{"tags": [ESCAPING]}])
    assert rows.splitlines()[1:] == [r'["\u001b[2J\r\nrow\t\u0000\x7F\x9B\u202E\ud800ä"]']


@pytest.mark.parametrize(("shape", "read"), [("jsonl", json.loads), ("csv", lambda text: next(csv.reader([text])))])
def test_text_for_programs_is_exact(shape: str, read: Callable[[str], object]) -> None:
    exact = ESCAPING.replace("\r\n", "").replace("\ud800", "" if shape == "csv" else "\ud800")
    out = io.StringIO()
    ROW_WRITERS[shape](["n"], out)({"n": exact})
    line = out.getvalue().split("\n")[-2]
    assert read(line) in ({"n": exact}, [exact])
    line.encode()
