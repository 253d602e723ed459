"""Formats files: finds SQL files, shows the differences, writes the result."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import ProjectError, error
from ds_dagster.sql.formatting.formatter import formatted


@dataclass(frozen=True, slots=True)
class FileLayout:
    """One file and its formatted text.

    Attributes:
        path: path of the file.
        before: text of the file.
        after: formatted text; equal to ``before`` if the file has mistakes.
        mistakes: reasons why the file is not formatted.
    """

    path: Path
    before: str
    after: str
    mistakes: tuple[Diagnostic, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether formatting changes the file."""
        return self.before != self.after

    def json(self) -> dict[str, object]:
        """The result as JSON: file, changed, diagnostics."""
        diagnostics = [mistake.json() for mistake in self.mistakes]
        return {"file": str(self.path), "changed": self.is_changed, "diagnostics": diagnostics}

    def write(self) -> None:
        """Write the formatted text, with its own line ends."""
        with self.path.open("w", encoding="utf-8", newline="") as file:
            file.write(self.after)


def sql_files(paths: Iterable[Path]) -> list[Path]:
    """The named files and all SQL files in the named folders, each once."""
    files = [file for path in paths for file in (sorted(path.rglob("*.sql")) if path.is_dir() else [path])]
    return list(dict.fromkeys(files))


def laid_out(path: Path) -> FileLayout:
    """Format a file; mistakes, and errors while reading it, are in the result."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        unread = error("SQL_FILE_UNREADABLE", span=Span(str(path), 1), file=str(path), reason=reason)
        return FileLayout(path, "", "", (unread.diagnostic(),))
    try:
        return FileLayout(path, text, formatted(str(path), text))
    except ProjectError as problem:
        return FileLayout(path, text, text, tuple(problem.diagnostics))


def differences(layout: FileLayout) -> str:
    """The changes as a unified diff."""
    before, after = (text.splitlines(keepends=True) for text in (layout.before, layout.after))
    name = str(layout.path)
    return "".join(
        line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(before, after, name, name)
    )
