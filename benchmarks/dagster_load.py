"""CPU time until Dagster has the definitions of a project of many generated relations: imports, the project from its
cache, definitions, and the snapshot that the code server sends.

Budget: 3 s of CPU for 1,000 relations, 12 s for 5,000. Compiling the SQL is measured by ``load``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.load_time import write_project
from ds_dagster.project.load import load_project

if TYPE_CHECKING:
    from benchmarks.measure import Result, Size

BUDGETS = {1000: 3.0, 5000: 12.0}
"""Relations → CPU seconds."""

LOAD = """
import sys, time
import dagster as dg
from dagster._core.remote_representation.external_data import RepositorySnap
from ds_dagster.orchestration import DsProject, build_ds_definitions
repository = build_ds_definitions(DsProject(sys.argv[1])).get_repository_def()
repository.load_all_definitions()
RepositorySnap.from_def(repository)
print(time.process_time())
"""


def definitions(size: Size) -> list[Result]:
    """Each measurement in a process of its own, as code servers, runs and steps load definitions; there is no peer but
    the budget."""
    from benchmarks.measure import Pairs, results

    found = []
    for relations, budget in BUDGETS.items():
        count = size.of(relations, relations // 10)
        pairs = Pairs(f"Dagster definitions of {count:,} relations (peer: budget)", "s CPU", False)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "project"
            write_project(root, count)
            load_project(root)
            for _ in range(size.runs):
                command = [sys.executable, "-c", LOAD, str(root)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                pairs.add(float(done.stdout), budget)
        found.append(pairs)
    return results(found)
