"""CPU time to build Dagster definitions of a project of many generated relations: cold, and with the compiled project
in the cache.

``python benchmarks/dagster_load.py [relations]``. Budget for 1,000 relations: under 3 s of CPU for Dagster's part (the
project taken from the cache; imports counted).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from load_time import write_project

LOAD = """
import sys, time
begin = time.process_time()
import dagster as dg
from ds_dagster.orchestration import DsProject, build_ds_definitions
imported = time.process_time()
project = DsProject(sys.argv[1])
project.props
compiled = time.process_time()
definitions = build_ds_definitions(project)
repository = definitions.get_repository_def()
repository.load_all_definitions()
from dagster._core.remote_representation.external_data import RepositorySnap
RepositorySnap.from_def(repository)
ended = time.process_time()
count = len(repository.assets_defs_by_key)
print(f"imports {imported - begin:5.2f}  project {compiled - imported:5.2f}  definitions {ended - compiled:5.2f}  "
      f"all {ended - begin:5.2f} s CPU, {count} assets")
"""


def main(relations: int) -> None:
    """Each measurement in a process of its own, as code servers, runs and steps load definitions."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, relations)
        for name in ("cold", "cached", "cached", "cached"):
            done = subprocess.run([sys.executable, "-c", LOAD, str(root)], capture_output=True, text=True, check=True)
            print(f"{name:8} {done.stdout.strip()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
