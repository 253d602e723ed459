"""``ds plan`` for people: a table and the details of each line, on a terminal or as Markdown for a pull request."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from types import MappingProxyType

import click

from ds_dagster.cli.output import has_colours, table
from ds_dagster.runtime.deciding.permissions import partial_text
from ds_dagster.runtime.planning.effort import Effort, Reread
from ds_dagster.runtime.planning.planned import PlannedChange

HEADERS = ("query", "verdict", "because", "reset")
_COLOUR_OF: Mapping[str, str] = MappingProxyType({"+": "green", "-": "red", "@": "cyan"})


def plan_json(lines: Sequence[PlannedChange]) -> list[dict[str, object]]:
    """``[{name, relation, verdict, rule, hint, doubles, readers, beside, way, partial, state, waits, because, sql,
    columns, creates, downstream, renamed_from, reads_again, staged, effort}]``; ``effort``: see
    ``runtime.planning.effort``."""
    rows = ({**asdict(line.change), **asdict(line)} for line in lines)
    return [{name: value for name, value in row.items() if name != "change"} for row in rows]


def print_plan(lines: Sequence[PlannedChange]) -> None:
    """The table, then a block for each query whose definition changes, or that has a staged version."""
    table(HEADERS, map(_row, lines))
    for line in lines:
        if line.change.verdict in ("new", "unchanged", "orphan") and not (_found(line) or line.staged):
            continue
        click.echo(f"\n{line.change.name}")
        for text in _effects(line):
            click.echo(f"  {text}")
        for text in line.sql if line.change.verdict != "new" else ():
            colour = _COLOUR_OF.get(text[:1]) if has_colours(sys.stdout) else None
            click.echo("    " + click.style(text, fg=colour) if colour else f"    {text}")


def plan_markdown(lines: Sequence[PlannedChange]) -> str:
    """The plan as a comment on a pull request: waiting changes, and the difference of each statement folded away."""
    waiting = [line for line in lines if line.waits or line.change.verdict != "unchanged" or _drift(line)]
    if not waiting:
        return f"**Streaming SQL**: nothing to do, {len(lines)} queries are unchanged and run.\n"
    count = sum(line.waits or bool(_drift(line)) for line in waiting)
    parts = [f"**Streaming SQL**: {count} of {len(lines)} queries need an action.", "", _markdown_table(waiting)]
    parts += [_folded(line) for line in waiting if line.sql or any(_effects(line))]
    return "\n".join(parts) + "\n"


def _row(line: PlannedChange) -> tuple[str, str, str, str | None]:
    return (line.change.name, _verdict(line), line.because, _doubles(line))


def _verdict(line: PlannedChange) -> str:
    text = line.change.verdict.replace("_", " ")
    if line.change.beside:
        text = "new version" if line.change.verdict == "needs_new_checkpoint" else f"new version, {text}"
    if not _drift(line):
        return text
    return "drifted" if line.change.verdict == "unchanged" else f"{text}, drifted"


def _drift(line: PlannedChange) -> tuple[str, ...]:
    return () if line.effort is None else line.effort.drift


def _found(line: PlannedChange) -> bool:
    return line.effort is not None and bool(line.effort.reads or line.effort.drift or line.effort.unknown)


def _effort(effort: Effort) -> Iterator[str]:
    for read in effort.reads:
        text = _amount(read)
        text += f"; records before {_moment(read.oldest)} are gone" if read.is_cut and read.oldest is not None else ""
        text += f"; retention may remove the oldest in {_span(read.expires)}" if read.expires is not None else ""
        yield text
    if effort.seconds is not None:
        yield f"takes about {_span(effort.seconds)} at the rate of its fastest batch"
    yield from (f"drifted: {text}" for text in effort.drift)
    yield from (f"unknown: {text}" for text in effort.unknown)


def _amount(read: Reread) -> str:
    about = "" if read.bytes is None else f", about {read.bytes / 1e6:,.1f} MB"
    if read.records is None:
        return f"reads {read.entity}{about}; its store does not count the records"
    return f"reads {read.records:,} records of {read.entity}{about}"


def _span(seconds: float) -> str:
    """``40 s``, ``12 min``, ``7.5 h``, ``3.1 d``."""
    units = (("d", 86_400.0, 172_800.0), ("h", 3_600.0, 7_200.0), ("min", 60.0, 120.0))
    name, size = next(((name, size) for name, size, least in units if seconds >= least), ("s", 1.0))
    return f"{seconds / size:.1f} {name}" if name in ("d", "h") else f"{seconds / size:.0f} {name}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _doubles(line: PlannedChange) -> str | None:
    """Text about rows that the reset for a change would write twice; None without such rows, or if a new version avoids
    the reset."""
    change = line.change
    if change.beside:
        return None
    readers = f"; downstream: {', '.join(change.readers)}" if change.readers else ""
    return f"writes rows again that {', '.join(change.doubles)} has{readers}" if change.doubles else None


def _effects(line: PlannedChange) -> Iterator[str]:
    if line.change.hint:
        yield f"to do: {line.change.hint}"
    if line.change.partial:
        yield f"or: {partial_text(line.change)}"
    if line.reads_again:
        yield f"reads again: {', '.join(line.reads_again)}"
    if line.effort is not None:
        yield from _effort(line.effort)
    if line.staged:
        yield f"staged: {line.staged}"
    if line.creates:
        yield f"creates: {', '.join(line.creates)}"
    yield from (f"column {text}" if not text.startswith("key:") else text for text in line.columns)
    if line.downstream:
        yield f"downstream: {', '.join(line.downstream)}"


def _markdown_table(lines: Sequence[PlannedChange]) -> str:
    rows = [HEADERS, tuple("---" for _ in HEADERS), *map(_row, lines)]
    return "\n".join("| " + " | ".join((cell or "").replace("|", "\\|") for cell in row) + " |" for row in rows)


def _folded(line: PlannedChange) -> str:
    effects = [f"- {text}" for text in _effects(line)]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(line.sql))), default=0))
    sql = [f"{fence}diff", *line.sql, fence] if line.sql else []
    summary = f"{line.change.name}: {_verdict(line)}"
    return "\n".join(["", f"<details><summary>{summary}</summary>", "", *effects, "", *sql, "", "</details>"])
