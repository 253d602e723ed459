"""Options of ``ds query``: files, time, a question asked again, and long results on a terminal."""

from __future__ import annotations

import csv
import errno
import io
import json
from decimal import Decimal
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ds_dagster.cli.results import pager, question, watching
from ds_dagster.errors import error

SELECT = "SELECT url, n FROM visits ORDER BY n"


@pytest.fixture(autouse=True)
def filled(views) -> None:
    views.write("visits", {"url": ["a", "b", None], "device": ["x", "y", "z"], "n": [1, 2, 3]})


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("csv", "url,n\na,1\nb,2\n,3\n"),
        ("tsv", "url\tn\na\t1\nb\t2\n\t3\n"),
        ("jsonl", '{"url":"a","n":1}\n{"url":"b","n":2}\n{"url":null,"n":3}\n'),
    ],
)
def test_the_ending_of_a_file_says_its_format(ds, project: Path, ending: str, expected: str) -> None:
    answer = ds("query", SELECT, "--output", f"made/rows.{ending}")
    assert (answer.code, answer.out) == (0, "")
    assert f"3 rows written to made/rows.{ending}" in answer.err
    assert (project / "made" / f"rows.{ending}").read_text() == expected


def test_a_json_file_is_the_document_of_json(ds, project: Path) -> None:
    ds("query", SELECT, "--output", "rows.json")
    assert json.loads((project / "rows.json").read_text()) == ds("query", SELECT, "--json").json


def test_a_parquet_file_keeps_types(ds, views, project: Path) -> None:
    at = pa.array([1_700_000_000_123_000], pa.timestamp("us", "UTC"))
    views.write("paid", {"userid": ["ann"], "total": pa.array([Decimal("1.50")], pa.decimal128(38, 2)), "latest": at})
    assert ds("query", "SELECT total, latest FROM paid", "--output", "rows.parquet").code == 0
    table = pq.read_table(project / "rows.parquet")
    assert [str(type_) for type_ in table.schema.types] == ["decimal128(38, 2)", "timestamp[us, tz=UTC]"]
    assert table.column("total").to_pylist() == [Decimal("1.50")]


def test_a_file_of_a_failed_question_stays_as_it_was(ds, project: Path) -> None:
    (project / "rows.csv").write_text("before")
    assert ds("query", "SELECT missing FROM visits", "--output", "rows.csv").code == 1
    assert (project / "rows.csv").read_text() == "before"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--output", "rows.xlsx"], "has to end in one of .csv, .tsv, .json, .jsonl, .parquet"),
        (["--output", "rows.csv", "--format", "csv"], "leave out --format"),
        (["--output", "rows.json", "--json"], "leave out --format"),
        (["--output", "rows.csv", "--watch", "1"], "leave out --format"),
        (["--watch", "0"], "0"),
        (["--json", "--format", "csv"], "leave out --json"),
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(ds, options: list[str], expected: str) -> None:
    answer = ds("query", SELECT, *options)
    assert answer.code == 2
    assert expected in answer.err


@pytest.mark.parametrize(
    ("sql", "options", "condition"),
    [
        (SELECT, ["--output", "ds.toml/rows.csv"], "RESULT_FILE_UNWRITABLE"),
        ("SELECT url FROM clicks", ["--output", "rows.parquet"], "RESULT_FILE_ENDLESS"),
        ("SELECT url FROM clicks", ["--output", "rows.json", "--limit", "3"], "RESULT_FILE_ENDLESS"),
        ("SELECT url FROM clicks", ["--watch", "1"], "QUESTION_WATCH_ENDLESS"),
    ],
)
def test_what_cannot_be_written_or_asked_again(ds, sql: str, options: list[str], condition: str) -> None:
    answer = ds("query", sql, *options)
    assert answer.code == 1
    assert condition in answer.err


def test_rows_that_follow_are_appended_to_the_file(ds, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ds_dagster.questions import following

    def interrupted(*_: object):
        yield {"url": "a"}
        yield {"url": "b, c"}
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "follow", interrupted)
    answer = ds("query", "SELECT url FROM clicks", "--output", "rows.csv")
    assert answer.code == 0
    assert "2 rows written to rows.csv" in answer.err
    rows = csv.DictReader(io.StringIO((project / "rows.csv").read_text()))
    assert [row["url"] for row in rows] == ["a", "b, c"]


def test_a_file_stays_as_it_was_when_its_source_cannot_be_read(
    ds, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ds_dagster.questions import following

    def unreachable(*_: object):
        raise error("STORE_UNREACHABLE", store="kafka", address="b:9092")
        yield

    monkeypatch.setattr(following, "follow", unreachable)
    (project / "rows.csv").write_text("before")
    assert ds("query", "SELECT url FROM clicks", "--output", "rows.csv", "--limit", "1").code == 1
    assert (project / "rows.csv").read_text() == "before"


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_full_disk_is_a_condition(ds, project: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    from ds_dagster.questions import following

    monkeypatch.setattr(following, "follow", lambda *_: iter([{"url": "a"}]))
    (project / f"full.{ending}").symlink_to("/dev/full")
    answer = ds("query", "SELECT url FROM clicks", "--output", f"full.{ending}")
    assert answer.code == 1
    assert "RESULT_FILE_UNWRITABLE" in answer.err


def test_standard_output_on_a_full_disk_is_a_condition(ds, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(question, "show_text", full)
    answer = ds("query", SELECT)
    assert answer.code == 1
    assert "no space is left for the output [OUTPUT_WITHOUT_SPACE]" in answer.err


@pytest.mark.parametrize("command", [("query", SELECT), ("sql", "-c", f"{SELECT};")])
def test_the_time_is_on_stderr(ds, command: tuple[str, ...]) -> None:
    assert "time: " not in ds(*command).err
    answer = ds(*command, "--timing", "--json")
    assert [line[-3:] for line in answer.err.splitlines() if line.startswith("ds: time: ")] == [" ms"]
    assert answer.json["rows"][0] == {"url": "a", "n": 1}


def test_a_watched_question_is_asked_again_until_it_is_interrupted(ds, views, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        views.write("visits", {"url": ["a"], "device": ["x"], "n": [10 * len(pauses)]})
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", pause)
    answer = ds("query", "SELECT n FROM visits WHERE url = 'a'", "--watch", "2.5", "--format", "jsonl")
    assert (answer.code, pauses) == (0, [2.5, 2.5, 2.5])
    assert answer.out.splitlines() == ['{"n":1}', '{"n":10}', '{"n":20}']
    assert answer.err.count("every 2.5 s, asked at ") == 3


def test_a_watched_answer_is_cut_to_the_lines_of_the_terminal() -> None:
    text = "".join(f"{n}\n" for n in range(10))
    assert watching.fitting(text, 10) == text
    assert watching.fitting(text, 4) == "0\n1\n2\n… 7 more lines\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("lines", "is_terminal", "expected"), [(100, True, True), (100, False, False), (3, True, False)]
)
def test_only_a_long_result_on_a_terminal_has_a_pager(
    monkeypatch: pytest.MonkeyPatch, lines: int, is_terminal: bool, expected: bool
) -> None:
    paged: list[str] = []
    out = _Terminal() if is_terminal else io.StringIO()
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr(pager.sys, "stdout", out)
    monkeypatch.setattr(pager.sys, "stdin", _Terminal())
    monkeypatch.setattr(click, "echo_via_pager", paged.append)
    pager.show_text("row\n" * lines)
    assert bool(paged) is expected
    assert (paged[0] + "\n" if expected else out.getvalue()) == "row\n" * lines
