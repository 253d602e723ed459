"""Results that are written to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import click

from ds_dagster.cli.row_output import RowWriter
from ds_dagster.durable import make_folder, write_whole
from ds_dagster.errors import error

SHAPES: Mapping[str, str] = MappingProxyType(
    {f".{shape}": shape for shape in ("csv", "tsv", "json", "jsonl", "parquet")}
)
"""Ending of a file's name → format of the file."""
ROW_BY_ROW = ("csv", "tsv", "jsonl")
"""Formats to which rows can be appended one by one."""


class ResultFile(click.Path):
    """A file whose ending names its format."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path."""
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]
        if path.suffix.lower() not in SHAPES:
            self.fail(f"{value} has to end in one of {', '.join(SHAPES)}", param, ctx)
        return path


def shape_of(path: Path) -> str:
    """The format of a file, by its ending."""
    return SHAPES[path.suffix.lower()]


def write_result(path: Path, content: bytes | memoryview) -> None:
    """Create or replace a file as a whole.

    Raises:
        UserError: RESULT_FILE_UNWRITABLE.
    """
    with _writable(path):
        write_whole(path, content)


@contextmanager
def growing(path: Path, begin: Callable[[TextIO], RowWriter]) -> Iterator[RowWriter]:
    """A writer that appends rows to a new file.

    Args:
        path: of the file; an existing file is overwritten.
        begin: makes the writer for the open file; it may write a header.

    Raises:
        UserError: RESULT_FILE_UNWRITABLE.
    """
    with _writable(path):
        make_folder(path.parent)
        stream = path.open("w", encoding="utf-8", newline="")
    try:
        with _writable(path):
            write = begin(stream)

        def append(row: Mapping[str, object]) -> None:
            with _writable(path):
                write(row)

        yield append
    finally:
        with _writable(path):
            stream.close()


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise error("RESULT_FILE_UNWRITABLE", file=str(path), reason=problem.strerror or str(problem)) from problem
