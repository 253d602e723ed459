"""PyFlink beside us, where it is installed: in an environment of its own, since its dependencies are not ours."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import say
from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.halves import Mark

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = Path(os.environ.get("NEXMARK_FLINK_PYTHON", ROOT / ".cache" / "flink" / "bin" / "python"))
INSTALL = (
    "python3 -m venv .cache/flink && .cache/flink/bin/pip install 'apache-flink>=2.3,<2.4'   "
    "(Python 3.10 to 3.12, about 500 MB; NEXMARK_FLINK_PYTHON names another interpreter)"
)


def why_not() -> str:
    """Why there is no PyFlink here, empty when there is one."""
    if not PYTHON.is_file():
        return f"PyFlink is not installed: no {PYTHON}. To install it: {INSTALL}"
    probe = [str(PYTHON), "-c", "import pyflink.version as v; print(v.__version__)"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"PyFlink does not load: {done.stderr.strip().splitlines()[-1]}. To install it: {INSTALL}"
    say(f"peer: PyFlink {done.stdout.strip()}")
    return ""


@dataclass(frozen=True, slots=True)
class Took:
    """What a query took on PyFlink: seconds, CPU seconds of its JVM, and how far it was meanwhile."""

    seconds: float
    cpu_s: float
    marks: Sequence[Mark]


def run(query: str, dataset: Dataset, limit: float) -> Took | None:
    """Run a query on PyFlink over the same events; None when it cannot, the reason goes to standard error.

    Args:
        query: ``q0`` to ``q22``.
        dataset: with JSON lines.
        limit: seconds of both runs together, after which it is given up.
    """
    with TemporaryDirectory(prefix="ds-nexmark-flink-") as checkpoints:
        files = (
            dataset.folder / "lines",
            HERE / "flink" / "relations.sql",
            HERE / "flink" / f"{query}.sql",
            checkpoints,
        )
        command = [str(PYTHON), str(HERE / "flink_job.py"), *map(str, files)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            say(f"{query} on PyFlink: not ready after {limit:.0f} s")
            return None
    if done.returncode:
        problem = [line for line in done.stderr.splitlines() if "Exception" in line] or done.stderr.splitlines()[-1:]
        say(f"{query} on PyFlink: {' '.join(problem)[:300]}")
        return None
    return Took(**json.loads(done.stdout.strip().splitlines()[-1]))
