"""Figures of interleaved runs: medians, ratios, and what processes take of CPU and memory."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MEGABYTE = 1 << 20
WARM_UPS = 3
"""Runs of each side in front of the measured ones: the JVM's compiler still gained a third from the first to the
third."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run of the whole does.

    Attributes:
        quick: enough to see that it works, too little to believe.
        runs: measured runs of each side.
        share: of the full number of rows, for slow machines.
    """

    quick: bool = False
    runs: int = 3
    share: float = 1.0

    @property
    def warm_ups(self) -> int:
        """Runs of each side in front of the measured ones."""
        return self.of(WARM_UPS, 1)

    def of(self, full: int, quick: int) -> int:
        """A number by size."""
        return quick if self.quick else full

    def rows(self, full: int, quick: int) -> int:
        """A number of rows by size and share, in whole twelves (a third matches, a quarter is a batch)."""
        return quick if self.quick else max(12, int(full * self.share) // 12 * 12)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of ``bench.json``: medians over ``runs``; ``ratio`` is the median of the runs' ratios, above 1 = ours is
    better."""

    name: str
    ours: float
    peer: float
    unit: str
    ratio: float
    runs: int


@dataclass(slots=True)
class Pairs:
    """What one figure was, run by run, on both sides.

    Attributes:
        name, unit: shown.
        is_better_high: whether more is better (rows per second) or less (milliseconds).
        values: (ours, peer) of each run.
    """

    name: str
    unit: str
    is_better_high: bool
    values: list[tuple[float, float]] = field(default_factory=list)

    def add(self, ours: float, peer: float) -> None:
        self.values.append((ours, peer))

    def result(self) -> Result:
        ratios = [ours / peer if self.is_better_high else peer / ours for ours, peer in self.values]
        return Result(
            self.name,
            _round(statistics.median(ours for ours, _ in self.values)),
            _round(statistics.median(peer for _, peer in self.values)),
            self.unit,
            round(statistics.median(ratios), 2),
            len(self.values),
        )


def _round(value: float) -> float:
    return round(value) if abs(value) >= 100 else round(value, 2)


def results(pairs: Iterable[Pairs]) -> list[Result]:
    """Of all figures that were measured."""
    return [one.result() for one in pairs if one.values]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def write(found: Sequence[Result], path: Path) -> None:
    """Put results into the file; those of other items stay."""
    known: dict[str, Any] = {}
    if path.is_file():
        known = {line["name"]: line for line in json.loads(path.read_text(encoding="utf-8"))}
    known |= {result.name: asdict(result) for result in found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(known.values()), indent=1) + "\n", encoding="utf-8")


def show(found: Iterable[Result]) -> None:
    """A table for people."""
    lines = [("", "ours", "peer", "unit", "ratio", "runs")]
    lines += [(r.name, f"{r.ours:,}", f"{r.peer:,}", r.unit, f"{r.ratio:.2f}", str(r.runs)) for r in found]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    for line in lines:
        cells = [text.rjust(width) if column in (1, 2, 4, 5) else text.ljust(width)
                 for column, (text, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        print("  ".join(cells).rstrip())


def say(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


# --- processes --------------------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """A process and all below it."""
    found, todo = [], [pid]
    parents = _parents()
    while todo:
        at = todo.pop()
        found.append(at)
        todo.extend(child for child, parent in parents.items() if parent == at)
    return found


def _parents() -> Mapping[int, int]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (fields := _stat(int(folder.name))):
            found[int(folder.name)] = int(fields[1])
    return found


def _stat(pid: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` behind the name; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time processes have taken, those of their ended children included."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / TICKS


def resident_megabytes(pids: Iterable[int]) -> float:
    """Memory processes hold."""
    return sum(int(fields[21]) for pid in pids if (fields := _stat(pid))) * PAGE_BYTES / MEGABYTE


def proportional_megabytes(pids: Iterable[int]) -> float:
    """Memory processes hold, where a page that several of them share counts once (Linux's "Pss")."""
    return sum(map(_proportional_kilobytes, pids)) / 1024


def _proportional_kilobytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
