"""Output of ``ds sql``: tables for people, one JSON object per line for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ds_dagster.cli.output import LAYOUT, jsonable, note, show_diagnostics, table, table_text, visible
from ds_dagster.cli.results.pager import show_text
from ds_dagster.errors import DsError, ProjectError
from ds_dagster.json_text import to_json
from ds_dagster.questions.values import cell

Rows = Iterable[Mapping[str, Any]]
TYPES: Mapping[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}
"""Type of a value → SQL type of its column; values of other types are VARCHAR."""


@dataclass(frozen=True, slots=True)
class SqlOutput:
    """Prints results. With ``as_json`` every answer is one line ``{"kind", "columns", "rows"}``; records and rows that
    arrive one by one are a line ``{"kind", …}`` each."""

    as_json: bool = False

    def table(self, kind: str, rows: Rows, columns: Sequence[tuple[str, str]] | None = None) -> None:
        """An answer with rows.

        Args:
            kind: of the statement: ``LIST_STORES``, ``SELECT``.
            rows: all with the same names.
            columns: pairs (name, type); None: inferred from the rows.
        """
        shown = [dict(row) for row in rows]
        names = list(columns) if columns is not None else _columns(shown)
        if self.as_json:
            self._line({"kind": kind, "columns": [{"name": n, "type": t} for n, t in names], "rows": shown})
            return
        numbers = [i for i, (_, type_) in enumerate(names) if type_ in ("BIGINT", "DOUBLE", "INTEGER")]
        headers = [name for name, _ in names]
        show_text(table_text(headers, [[_cell(row[n]) for n in headers] for row in shown], right=numbers))
        note(f"{len(shown)} row{'' if len(shown) == 1 else 's'}")

    def document(self, kind: str, values: Mapping[str, Any]) -> None:
        """One object with its properties; lists of objects in it become separate tables."""
        if self.as_json:
            self._line({"kind": kind, **values})
            return
        plain = {name: value for name, value in values.items() if not _is_table(value)}
        width = max(map(len, plain), default=0)
        for name, value in plain.items():
            click.echo(visible(f"{name.ljust(width)}  {_cell(value)}", keep=LAYOUT))
        for name, value in values.items():
            if _is_table(value):
                click.echo(f"\n{name}:")
                headers = list(value[0])
                table(headers, [[_cell(row[header]) for header in headers] for row in value])

    def text(self, kind: str, name: str, text: str, **more: Any) -> None:
        """A text to copy; in JSON it is under ``name``."""
        if self.as_json:
            self._line({"kind": kind, name: text, **more})
        else:
            click.echo(text)

    def done(self, kind: str, thing: str, name: str, summary: str, **more: Any) -> None:
        """A change that was made: ``{"kind", "type", "name", "summary"}``; ``thing``: type of the changed object."""
        if self.as_json:
            self._line({"kind": kind, "type": thing, "name": name, "summary": summary, **more})
        else:
            note(summary)

    def line(self, row: Mapping[str, Any], shown: str) -> None:
        """One record or row that arrived; ``shown``: its text for people."""
        if self.as_json:
            self._line(row)
        else:
            click.echo(shown)

    def failure(self, problem: DsError) -> None:
        """The diagnostic of a failed statement."""
        diagnostics = problem.diagnostics if isinstance(problem, ProjectError) else (problem.diagnostic(),)
        if self.as_json:
            self._line({"ok": False, "diagnostics": [diagnostic.json() for diagnostic in diagnostics]})
        else:
            show_diagnostics(diagnostics)

    @staticmethod
    def _line(value: Mapping[str, Any]) -> None:
        click.echo(to_json(value, default=jsonable, separators=(",", ":")))


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    names = list(rows[0]) if rows else []
    samples = {name: next((row[name] for row in rows if row[name] is not None), None) for name in names}
    return [(name, TYPES.get(type(value), "VARCHAR")) for name, value in samples.items()]


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _cell(value: Any) -> Any:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, int | float) and not isinstance(value, bool) else cell(value)
