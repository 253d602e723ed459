"""A SELECT on the command line: answers it, and shows, writes or follows the rows."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ds_dagster.cli.output import json_text, note
from ds_dagster.cli.results.file import ROW_BY_ROW, growing, write_result
from ds_dagster.cli.results.freshness import tell_freshness
from ds_dagster.cli.results.pager import show_text
from ds_dagster.cli.results.watching import tell_time, timed, until_interrupted, watch
from ds_dagster.cli.row_output import ROW_WRITERS, rows_document, rows_text, signed_line
from ds_dagster.datatypes import VARCHAR, DataType
from ds_dagster.errors import DsError, error
from ds_dagster.project.load import LoadedProject

if TYPE_CHECKING:
    from ds_dagster.questions.binding import Question
    from ds_dagster.questions.values import Row
    from ds_dagster.sql.statements import SelectBody

Columns = Sequence[tuple[str, DataType]]


@dataclass(frozen=True, slots=True)
class Presentation:
    """How to present the rows.

    Attributes:
        shape: format: ``table``, ``json``, one of :data:`ROW_WRITERS`, or the format of a file.
        limit: most rows; None: no limit.
        file: file to write to; None: standard output.
        every: seconds between two answers; None: answer once.
        is_timed: whether to print the time of an answer.
    """

    shape: str = "table"
    limit: int | None = None
    file: Path | None = None
    every: float | None = None
    is_timed: bool = False

    @property
    def is_by_row(self) -> bool:
        """Whether rows can be written one by one."""
        return self.file is None or self.shape in ROW_BY_ROW


def answer_select(project: LoadedProject, sql: str, wanted: Presentation) -> None:
    """Answer a SELECT and present its rows.

    Raises:
        UserError: QUESTION_WATCH_ENDLESS, RESULT_FILE_ENDLESS, and errors of parsing, binding and answering.
    """
    from ds_dagster.questions.binding import bind_question
    from ds_dagster.questions.following import check_endless, is_endless
    from ds_dagster.sql.script import parse_select

    body = parse_select(sql.strip().rstrip(";"), "<query>")
    question = bind_question(project, body)
    if is_endless(question):
        check_endless(question, sql)
        _check_presentation(question, wanted)
        with timed(wanted.is_timed):
            _follow(project, question, wanted)
    elif wanted.every is None:
        try:
            with timed(wanted.is_timed):
                question = _answer_once(project, body, question, wanted)
        except DsError as problem:
            if problem.condition == "VIEW_MISSING":
                tell_freshness(project, question.relations)
            raise
        tell_freshness(project, question.relations)
    else:
        _watch(project, body, question, wanted, wanted.every)


def _check_presentation(question: Question, wanted: Presentation) -> None:
    relation = question.relations[0]
    if wanted.every is not None:
        raise error("QUESTION_WATCH_ENDLESS", kind=relation.kind, relation=relation.name.name)
    if not wanted.is_by_row:
        assert wanted.file is not None, "standard output takes rows one by one"
        raise error("RESULT_FILE_ENDLESS", kind=relation.kind, relation=relation.name.name, ending=wanted.file.suffix)


def _answer_once(project: LoadedProject, body: SelectBody, question: Question, wanted: Presentation) -> Question:
    from ds_dagster.questions.answers import ask_select
    from ds_dagster.questions.arrow import parquet
    from ds_dagster.questions.values import json_rows

    question, answer = ask_select(project, body, question, wanted.limit)
    if wanted.file is None:
        show_text(answer_text(wanted.shape, question.columns, json_rows(question.columns, answer)))
        return question
    if wanted.shape == "parquet":
        write_result(wanted.file, parquet(answer))
    else:
        text = answer_text(wanted.shape, question.columns, json_rows(question.columns, answer))
        write_result(wanted.file, text.encode())
    _tell_written(answer.num_rows, wanted.file)
    return question


def _watch(project: LoadedProject, body: SelectBody, question: Question, wanted: Presentation, seconds: float) -> None:
    from ds_dagster.questions.answers import ask_select
    from ds_dagster.questions.values import json_rows

    newest, took = question, 0.0

    def answer() -> str:
        nonlocal newest, took
        started = time.perf_counter()
        newest, table = ask_select(project, body, newest, wanted.limit)
        took = time.perf_counter() - started
        return answer_text(wanted.shape, newest.columns, json_rows(newest.columns, table))

    def remark() -> None:
        if wanted.is_timed:
            tell_time(took)
        tell_freshness(project, newest.relations)

    watch(seconds, answer, remark)


def answer_text(shape: str, columns: Columns, rows: Sequence[Row]) -> str:
    """Rows in a format, as text that ends with a line break."""
    if shape == "table":
        return rows_text(columns, rows)
    if shape == "json":
        return json_text(rows_document(columns, rows)) + "\n"
    out = io.StringIO()
    write = ROW_WRITERS[shape]([name for name, _ in columns], out)
    for row in rows:
        write(row)
    return out.getvalue()


def _follow(project: LoadedProject, question: Question, wanted: Presentation) -> None:
    from ds_dagster.questions.binding import limit_of
    from ds_dagster.questions.following import OPERATION, follow

    changelog = question.relations[0].is_changelog
    columns = (*([(OPERATION, VARCHAR)] if changelog else []), *question.columns)
    rows = follow(project, question, wanted.limit, note)
    if wanted.file is not None:
        _append(rows, wanted.file, wanted.shape, [name for name, _ in columns])
        return
    is_bounded = wanted.limit is not None or limit_of(question.tree) is not None
    is_document = wanted.shape == "json" and is_bounded
    last_rows: list[Row] = []
    write = last_rows.append if is_document else _row_writer(wanted.shape, [name for name, _ in columns], sys.stdout)
    with until_interrupted():
        for row in rows:
            write(row)
    if is_document:
        click.echo(json_text(rows_document(columns, last_rows)))


def _append(rows: Iterator[Row], file: Path, shape: str, names: Sequence[str]) -> None:
    """Write rows as they come; the file is created with the first row, or at the end if there is none."""
    count = None
    with until_interrupted():
        first = next(rows, None)
        with growing(file, partial(ROW_WRITERS[shape], names)) as write:
            count = 0
            for row in chain(() if first is None else (first,), rows):
                write(row)
                count += 1
    if count is not None:
        _tell_written(count, file)


def _tell_written(count: int, file: Path) -> None:
    note(f"{count:,} row{'' if count == 1 else 's'} written to {file}")


def _row_writer(shape: str, names: Sequence[str], out: TextIO) -> Callable[[Row], None]:
    """The writer for rows of a stream; ``json`` without an end becomes one line per row."""
    return _signed if shape == "table" else ROW_WRITERS["jsonl" if shape == "json" else shape](names, out)


def _signed(row: Row) -> None:
    click.echo(signed_line(row))
