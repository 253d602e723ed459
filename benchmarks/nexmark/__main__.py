"""``python -m benchmarks.nexmark``: every Nexmark query compared with DuckDB and measured, each in its own process.

    python -m benchmarks.nexmark [--only q0,q4] [--events 20000] [--speed-events 1000000] [--peers] [--peer-limit 1800]

Prints a table and writes ``benchmarks/out/nexmark.json``. Ends with 1 when a result is not the batch answer.

query        of the published suite; benchmarks/nexmark/sql holds ours
rows         of the result over --events, folded by key
equal        to the batch answer, straight and with a restart in the middle
rows/s       records read over --speed-events, from files to encoded records; 0 events: not measured
2nd half     the same from the first look that sees half of the records read (ours: the end of a batch), to the end
CPU s        of Spark's processes for that run
peak MB      of their memory
peer         records a second of PyFlink for the same events
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.measure import say
from benchmarks.nexmark import peers
from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.generator import MOST_PER_SECOND
from benchmarks.nexmark.halves import second_half
from benchmarks.nexmark.queries import NAMES, compiled

OUT = Path(__file__).parents[1] / "out" / "nexmark.json"
SMALL_PARTS, LARGE_PART = 10, 500_000
"""Batches of the compared run; events of one batch of the measured one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ``nexmark.json``; None where there is no figure. ``refused``: the condition, if it is."""

    query: str
    rows: int | None = None
    equal: bool | None = None
    refused: str | None = None
    rows_per_s: int | None = None
    cpu_s: float | None = None
    peak_mb: int | None = None
    second_half_rows_per_s: int | None = None
    peer_rows_per_s: int | None = None
    peer_cpu_s: float | None = None
    peer_second_half_rows_per_s: int | None = None


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(NAMES), help="queries, with commas")
    parser.add_argument("--events", type=int, default=20_000, help="that results are compared over, default 20,000")
    parser.add_argument("--speed-events", type=int, default=1_000_000, help="that is measured with, default 1,000,000")
    parser.add_argument("--peers", action="store_true", help="PyFlink beside us, where it is installed")
    parser.add_argument("--peer-limit", type=float, default=1800.0, help="seconds of PyFlink per query, default 1,800")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    names = asked.only.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"no query {', '.join(unknown)}; known: {', '.join(NAMES)}")
    reason = peers.why_not() if asked.peers else "not asked for (--peers)"
    if asked.peers and reason:
        say(reason)
    small, large = _datasets(asked.events, asked.speed_events, lines=not reason)
    found = []
    for name in names:
        found.append(_line(name, small, large, peer_limit=None if reason else asked.peer_limit))
        _write(found, asked.out)
    _show(found)
    say(f"written to {asked.out}")
    return 0 if all(line.equal is not False for line in found) else 1


def _datasets(events: int, speed_events: int, *, lines: bool) -> tuple[Dataset, Dataset | None]:
    """Written once; another generator has folders of its own."""
    made = hashlib.sha256()
    for part in ("generator.py", "dataset.py"):
        made.update((Path(__file__).parent / part).read_bytes())
    root = OUT.parent / "nexmark-data" / made.hexdigest()[:8]
    small = Dataset(root / f"small-{events}", SMALL_PARTS, events)
    small.write()
    if not speed_events:
        return small, None
    parts = max(2, -(-speed_events // LARGE_PART))
    large = Dataset(root / f"large-{speed_events}-{parts}", parts, speed_events, MOST_PER_SECOND)
    say(f"events in {root}")
    large.write(lines=lines)
    return small, large


def _line(name: str, small: Dataset, large: Dataset | None, *, peer_limit: float | None) -> Line:
    """Measured; next to PyFlink if it may take some seconds."""
    query = compiled(name, small.folder)
    if query.refused:
        say(f"{name}: refused\n{query.reason}")
        return Line(name, refused=query.refused)
    command = [sys.executable, "-m", "benchmarks.nexmark.one", name, "--small", _argument(small)]
    command += ["--large", _argument(large)] if large else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    read = found.pop("input_rows", 0)
    line = Line(**found)
    say(f"{name}: {'equal' if line.equal else 'NOT EQUAL'}, {line.rows_per_s or 0:,} rows/s")
    if large is None or peer_limit is None:
        return line
    took = peers.run(name, large, peer_limit)
    if took is None:
        return line
    say(f"{name} on PyFlink: {read / took.seconds:,.0f} rows/s, {took.cpu_s:,.1f} CPU s")
    return replace(
        line,
        peer_rows_per_s=round(read / took.seconds),
        peer_cpu_s=round(took.cpu_s, 1),
        peer_second_half_rows_per_s=second_half(took.marks, read, took.seconds),
    )


def _argument(dataset: Dataset) -> str:
    return f"{dataset.folder},{dataset.events},{dataset.parts},{dataset.per_second}"


def _write(found: Sequence[Line], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(line) for line in found], indent=1) + "\n", encoding="utf-8")


def _show(found: Sequence[Line]) -> None:
    """A table for people."""
    lines: list[tuple[str, ...]] = [
        ("query", "rows", "equal", "rows/s", "2nd half", "CPU s", "peak MB", "peer rows/s", "2nd half", "peer CPU s")
    ]
    lines += [(line.query, *map(_cell, _cells(line))) for line in found]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    equal, refused = sum(bool(line.equal) for line in found), sum(bool(line.refused) for line in found)
    print(f"{equal} of {len(found)} equal to the batch answer, {refused} refused")


def _cells(line: Line) -> tuple[object, ...]:
    ours = (line.rows, line.refused or line.equal, line.rows_per_s, line.second_half_rows_per_s, line.cpu_s)
    return *ours, line.peak_mb, line.peer_rows_per_s, line.peer_second_half_rows_per_s, line.peer_cpu_s


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
