"""What a look-up loads: pandas takes half a second, and nobody asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SELECT = "SELECT userid, total, latest FROM paid WHERE userid = 'ann'"
DOORS = {
    "ds query --json": "assert run(['query', sql, '--json']) == 0",
    "ds query": "assert run(['query', sql]) == 0",
    "DsProject.ask": "from ds_dagster import DsProject; assert DsProject('.').ask(sql).num_rows == 1",
}
"""In the order in which one interpreter goes through them: the last one loads Dagster."""


@pytest.mark.sweep
def test_a_look_up_does_not_load_pandas(project: Path, views: Any) -> None:
    import pyarrow as pa

    at = pa.array([1_700_000_000_000_000, None], pa.timestamp("us", "UTC"))
    views.write("paid", {"userid": ["ann", "bob"], "total": pa.array([1, 2], pa.decimal128(38, 2)), "latest": at})
    looks = [f"{code}; assert 'pandas' not in sys.modules, {door!r}" for door, code in DOORS.items()]
    code = "\n".join([f"import sys; from ds_dagster.cli.main import run; sql = {SELECT!r}", *looks])
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
