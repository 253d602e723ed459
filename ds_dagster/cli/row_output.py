"""Rows with typed columns: as a table for people; as a document, or row by row, for programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TextIO

import click

from ds_dagster.cli.output import table_text, visible
from ds_dagster.cli.results.pager import show_text
from ds_dagster.datatypes import DataType

NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})


def rows_text(columns: Sequence[tuple[str, DataType]], rows: Sequence[Mapping[str, object]]) -> str:
    """A table that ends with a line break; numbers are right-aligned."""
    from ds_dagster.questions.values import cell

    headers = [name for name, _ in columns]
    numbers = [i for i, (_, type_) in enumerate(columns) if str(type_).split("(")[0] in NUMBERS]
    return table_text(headers, [[cell(row[name]) for name in headers] for row in rows], right=numbers)


def show_rows(columns: Sequence[tuple[str, DataType]], rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a table."""
    show_text(rows_text(columns, rows))


def rows_document(columns: Sequence[tuple[str, DataType]], rows: Sequence[object]) -> dict[str, object]:
    """``{"columns": [{"name", "type"}], "rows": […]}``."""
    return {"columns": [{"name": name, "type": str(type_)} for name, type_ in columns], "rows": list(rows)}


RowWriter = Callable[[Mapping[str, object]], None]


def _lines(_: Sequence[str], out: TextIO) -> RowWriter:
    from ds_dagster.questions.values import line

    return lambda row: click.echo(line(row), file=out)


def _separated(names: Sequence[str], out: TextIO, *, delimiter: str) -> RowWriter:
    from ds_dagster.questions.values import cell

    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)

    def write(row: Mapping[str, object]) -> None:
        writer.writerow([None if row[name] is None else cell(row[name]) for name in names])
        out.flush()

    return write


def _vertical(names: Sequence[str], out: TextIO) -> RowWriter:
    from ds_dagster.questions.values import cell

    titles = [visible(name) for name in names]
    width = max(map(len, titles))

    def write(row: Mapping[str, object]) -> None:
        for title, name in zip(titles, names, strict=True):
            click.echo(f"{title.ljust(width)}  {visible(cell(row[name]))}", file=out)
        click.echo(file=out)

    return write


ROW_WRITERS: Mapping[str, Callable[[Sequence[str], TextIO], RowWriter]] = MappingProxyType(
    {
        "jsonl": _lines,
        "csv": partial(_separated, delimiter=","),
        "tsv": partial(_separated, delimiter="\t"),
        "vertical": _vertical,
    }
)
"""Format → function from names of columns and a stream to a writer of rows. NULL is an empty field in csv and tsv."""
FORMATS = ("table", "json", *ROW_WRITERS)


def signed_line(row: Mapping[str, object]) -> str:
    """A row of a stream or changelog for people, as JSON; with a sign if it has an operation: ``-`` delete, ``+``
    else."""
    from ds_dagster.questions.following import OPERATION
    from ds_dagster.questions.values import line

    operation = row.get(OPERATION)
    values = {name: value for name, value in row.items() if name != OPERATION}
    sign = ("- " if operation == "delete" else "+ ") if operation else ""
    return sign + visible(line(values))
