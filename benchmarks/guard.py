"""``python -m benchmarks guard --against REV``: has a change made anything slower?

    python -m benchmarks guard --against main~1 [--only filter,json] [--rounds 3] [--allowed 0.1] [--share 0.25]

Both commits run the same benchmarks in turns on this machine, each beside its own peer, so that what is compared is a
ratio of ratios: ours ÷ peer here, over ours ÷ peer there. A line that lost more than ``--allowed`` in the median of the
rounds fails the command with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import say

ROOT = Path(__file__).parent.parent
ONLY = "filter,aggregate,temporal,json"
IN_ENGINES = frozenset({"cdc_latency", "cdc_many", "latency", "many", "realtime", "recovery"})
"""Items that start an engine. It inherits no ``PYTHONPATH`` and runs the installed package, whatever the commit."""
Ratios = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of both commits: medians of their ratios to the peer."""

    name: str
    here: float
    there: float

    @property
    def change(self) -> float:
        """Of the ratio, as a share: -0.1 is a tenth slower."""
        return self.here / self.there - 1


def compared(here: Sequence[Ratios], there: Sequence[Ratios]) -> tuple[Line, ...]:
    """The figures that every round of both commits has, in the order of the first round."""
    names = [name for name in here[0] if all(name in ratios for ratios in (*here, *there))]
    return tuple(
        Line(name, statistics.median(r[name] for r in here), statistics.median(r[name] for r in there))
        for name in names
    )


def slower(lines: Sequence[Line], allowed: float) -> tuple[Line, ...]:
    """The figures that lost more than the allowed share."""
    return tuple(line for line in lines if line.change < -allowed)


def main(arguments: Sequence[str]) -> int:
    """Compare this work tree with a commit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default="HEAD", help="the commit to compare with")
    parser.add_argument("--only", default=ONLY, help="names of benchmarks, with commas")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each commit, in turns")
    parser.add_argument("--allowed", type=float, default=0.1, help="share that a ratio may lose")
    parser.add_argument("--share", default="0.25", help="of the full number of rows")
    asked = parser.parse_args(arguments)
    refused = sorted(IN_ENGINES & {name.partition("/")[0] for name in asked.only.split(",")})
    if refused:
        parser.error(f"cannot compare {', '.join(refused)}: engines run the installed package, not that of a commit")
    here: list[Ratios] = []
    there: list[Ratios] = []
    with checkout(asked.against) as other:
        for number in range(asked.rounds):
            sides = [(ROOT, here), (other, there)]
            for tree, ratios in sides if number % 2 == 0 else reversed(sides):
                say(f"round {number + 1} of {asked.rounds}: {'this work tree' if tree == ROOT else asked.against}")
                ratios.append(measured(tree, asked.only, asked.share))
    lines = compared(here, there)
    show(lines, asked.allowed)
    return 1 if slower(lines, asked.allowed) else 0


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A work tree of a commit, gone with the block."""
    with tempfile.TemporaryDirectory(prefix="ds-guard-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measured(tree: Path, only: str, share: str) -> Ratios:
    """One run of a tree's own benchmarks with this environment's packages; figure → ratio to its peer."""
    with tempfile.TemporaryDirectory(prefix="ds-guard-out-") as folder:
        out = Path(folder) / "bench.json"
        words = ["-m", "benchmarks", "--only", only, "--runs", "1", "--share", share, "--out", str(out)]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run([sys.executable, *words], cwd=tree, env=environment, check=True)
        return {line["name"]: line["ratio"] for line in json.loads(out.read_text(encoding="utf-8"))}


def show(lines: Sequence[Line], allowed: float) -> None:
    """The table, and a verdict for each line."""
    width = max([len(line.name) for line in lines], default=0)
    for line in lines:
        verdict = "SLOWER" if line in slower(lines, allowed) else "ok"
        say(f"{line.name:{width}}  {line.there:8.2f} → {line.here:8.2f}  {line.change:+7.1%}  {verdict}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
