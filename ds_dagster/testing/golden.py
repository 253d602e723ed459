"""Golden files of a case: read for comparison, or written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.testing.case import Expectation, Row
from ds_dagster.testing.format import rows_of_text


class Golden:
    """Golden files of one case.

    Args:
        update: write them instead of comparing with them.
    """

    def __init__(self, update: bool) -> None:
        self.update = update
        self.written: list[Path] = []

    def rows(self, expectation: Expectation) -> Sequence[Row]:
        """The expected rows: written in the case, or read from the golden file.

        Raises:
            UserError: CASE_UNREADABLE, CASE_DATA_INVALID.
        """
        if expectation.file is None:
            return expectation.rows or ()
        try:
            text = expectation.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            name = expectation.file.name
            raise error("CASE_UNREADABLE", span=expectation.span, file=name, reason=str(problem)) from problem
        return rows_of_text(text, expectation.file.name, expectation.span)

    def write(self, path: Path, rows: Sequence[Row], ordered: bool) -> None:
        """Write a golden file if its content changes; rows are sorted unless ``ordered``."""
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        text = "".join(line + "\n" for line in (lines if ordered else sorted(lines)))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            self.written.append(path)
