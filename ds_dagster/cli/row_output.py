"""Rows with typed columns: as a table for people, as a document, or row by row, for other programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import click

from ds_dagster.cli.output import table
from ds_dagster.datatypes import DataType

NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})


def show_rows(columns: Sequence[tuple[str, DataType]], rows: Sequence[Mapping[str, object]]) -> None:
    """A table; numbers are right-aligned."""
    from ds_dagster.questions.values import cell

    headers = [name for name, _ in columns]
    numbers = [i for i, (_, type_) in enumerate(columns) if str(type_).split("(")[0] in NUMBERS]
    table(headers, [[cell(row[name]) for name in headers] for row in rows], right=numbers)


def rows_document(columns: Sequence[tuple[str, DataType]], rows: Sequence[object]) -> dict[str, object]:
    """``{"columns": [{"name", "type"}], "rows": […]}``."""
    return {"columns": [{"name": name, "type": str(type_)} for name, type_ in columns], "rows": list(rows)}


RowWriter = Callable[[Mapping[str, object]], None]


def _lines(_: Sequence[str]) -> RowWriter:
    from ds_dagster.questions.values import line

    return lambda row: click.echo(line(row))


def _separated(names: Sequence[str], *, delimiter: str) -> RowWriter:
    from ds_dagster.questions.values import cell

    writer = csv.writer(sys.stdout, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)

    def write(row: Mapping[str, object]) -> None:
        writer.writerow([None if row[name] is None else cell(row[name]) for name in names])
        sys.stdout.flush()

    return write


def _vertical(names: Sequence[str]) -> RowWriter:
    from ds_dagster.questions.values import cell

    width = max(map(len, names))

    def write(row: Mapping[str, object]) -> None:
        for name in names:
            click.echo(f"{name.ljust(width)}  {cell(row[name])}")
        click.echo()

    return write


ROW_WRITERS: Mapping[str, Callable[[Sequence[str]], RowWriter]] = MappingProxyType(
    {
        "jsonl": _lines,
        "csv": partial(_separated, delimiter=","),
        "tsv": partial(_separated, delimiter="\t"),
        "vertical": _vertical,
    }
)
"""Format → from the names of the columns what prints one row. NULL is an empty field in csv and tsv."""
FORMATS = ("table", "json", *ROW_WRITERS)
