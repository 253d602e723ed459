"""Output of results and failures: tables for people, JSON for machines, notes on stderr."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import click

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError
from ds_dagster.json_text import to_json
from ds_dagster.names import is_address
from ds_dagster.settings import Settings, find_project, load_settings


def _project_before_command() -> Path | None:
    """``ds --project DIR ps``: the folder that is written before the command; None without one."""
    folder: Path | None = click.get_current_context().find_root().params.get("project")
    return folder


def project_option(function: Any) -> Any:
    """``--project DIR``; default: the current folder, or the nearest parent with settings."""
    return click.option(
        "--project",
        "project",
        type=click.Path(file_okay=False, path_type=Path),
        default=_project_before_command,
        help="Project folder (default: the current folder, or the nearest parent with settings).",
    )(function)


class LocalFolder(click.Path):
    """A folder of this machine. An address such as ``s3a://bucket/folder`` is refused."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if is_address(str(value)):
            self.fail(f"{value} is not a folder of this machine's file system", param, ctx)
        return super().convert(value, param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds; `nan` and `inf`, which are numbers of Python, are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


def json_option(function: Any) -> Any:
    """``--json``: one JSON document on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")(function)


def pool_option(text: str) -> Callable[[Any], Any]:
    """``--pool NAME``, folded like names in SQL; empty by default. ``text``: its help."""
    return click.option("--pool", default="", callback=lambda _, __, name: name.lower(), help=text)


def settings_of(project: Path | None, *, quiet: bool = False) -> Settings:
    """Settings of the chosen project; unless ``quiet``, a note on stderr tells if an overlay is in use."""
    settings = load_settings(find_project((project or Path.cwd()).resolve()))
    if settings.overlay.path and not quiet:
        shown = Path(settings.overlay.path)
        inside = shown.relative_to(settings.root) if shown.is_relative_to(settings.root) else shown
        note(f"store addresses come from {inside} (DS_PROFILE=none ignores it)")
    return settings


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, characters that change the direction of text, and surrogates (halves of a character)."""
LAYOUT = "\n\t"
"""Characters for the layout of texts with several lines."""
_SHORT: Mapping[str, str] = MappingProxyType({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def visible(text: str, *, keep: str = "") -> str:
    """A text from outside for people: characters that control a terminal are escaped as in psql, ``\\n``, ``\\x1B``.

    Args:
        text: of a record, a row, another system.
        keep: characters that stay as they are.
    """
    return _UNSEEN.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02X}" if code < 256 else f"\\u{code:04X}")


def note(text: str) -> None:
    """Progress and remarks, on stderr."""
    click.echo(f"ds: {visible(text, keep=LAYOUT)}", err=True)


def emit_json(value: object) -> None:
    """One JSON document on stdout."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """A JSON document, indented over several lines."""
    return to_json(value, default=jsonable, indent=2)


def parsed(text: str) -> object:
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def jsonable(value: object) -> object:
    """A text for a value that JSON has no form for."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


COLOURS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("RUNNING", "FINISHED", "unchanged", "ok"), "green"),
        **dict.fromkeys(
            (
                "STARTING",
                "STOPPING",
                "BACKING_OFF",
                "UNKNOWN",
                "WAITING",
                "unknown",
                "new",
                "keeps checkpoint",
                "new version",
            ),
            "yellow",
        ),
        **dict.fromkeys(("FAILED", "needs new checkpoint", "would lose data", "orphan"), "red"),
    }
)
"""Cell of a table (a state of a job, a verdict of `ds plan`) → its colour on a terminal."""


def has_colours(stream: TextIO) -> bool:
    """Whether output may be coloured: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> None:
    """Print :func:`table_text`."""
    click.echo(table_text(headers, rows, right=right), nl=False)


def table_text(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """A plain aligned table without borders; headers alone when there are no rows. ``right``: right-aligned columns."""
    lines = []
    shown = [[visible(_cell(value)) for value in row] for row in rows]
    titles = [visible(header.upper()) for header in headers]
    widths = [max([len(title), *(len(row[i]) for row in shown)]) for i, title in enumerate(titles)]
    colours = COLOURS if has_colours(sys.stdout) else {}
    for row in [titles, *shown]:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        cells[-1] = cells[-1].rstrip()
        painted = (
            click.style(c, fg=colours[text]) if text in colours else c for c, text in zip(cells, row, strict=True)
        )
        lines.append("  ".join(painted).rstrip())
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | dict):
        return json.dumps(value, default=jsonable, ensure_ascii=False)
    return str(value)


CALENDAR = (-62_135_596_800, 253_402_300_799)
"""First and last second of the years 1 to 9999, since the epoch. Times of a producer that stamps in microseconds are
outside."""


def clock(seconds: float | None) -> str:
    """Date and time (UTC) of epoch seconds, for tables; the number of seconds outside of :data:`CALENDAR`."""
    if seconds is not None and not CALENDAR[0] <= seconds <= CALENDAR[1]:
        return f"{seconds:.0f} s"
    return "-" if seconds is None else datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def show_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics on stderr, with colours on a terminal."""
    colours = {"error": "red", "warning": "yellow"}
    for diagnostic in diagnostics:
        text = visible(diagnostic.text(), keep=LAYOUT)
        if has_colours(sys.stderr):
            head, _, rest = text.partition("\n")
            text = click.style(head, fg=colours[diagnostic.severity]) + (f"\n{rest}" if rest else "")
        click.echo(text, err=True)


def fail(problem: DsError, *, as_json: bool) -> None:
    """Print the diagnostics of a failed command: on stdout as JSON, else on stderr."""
    diagnostics = problem.diagnostics if isinstance(problem, ProjectError) else (problem.diagnostic(),)
    if as_json:
        emit_json({"ok": False, "diagnostics": [diagnostic.json() for diagnostic in diagnostics]})
    else:
        show_diagnostics(diagnostics)
