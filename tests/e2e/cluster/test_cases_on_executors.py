"""Test cases of every operator with state, run by executors that are processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ds_dagster.testing.short_lived import MASTER
from tests.e2e.feeding import ROOT

CASES = ROOT / "tests" / "cases"
PARTS = {
    "patterns": "patterns/basic patterns/aggregates patterns/crash_after_commit over/running",
    "joins": "joins/interval_full joins/interval_restart joins/temporal_chain joins/temporal_crash_before_commit "
    "joins/table_lookup joins/view_lookup joins/window_join joins/window_extreme semi/in_and_exists",
    "ranks": "ranks/deduplicate ranks/top_n_of_changelog ranks/per_window",
    "row_logs": "row_logs/bad_records row_logs/crash_after_commit row_logs/row_errors row_logs/row_errors_aggregate",
    "sinks": "sinks/ctas_crash sinks/ctas_upsert sinks/ctas_full",
    "applications": "applications/shared_state applications/three_sinks applications/tables_and_views "
    "applications/virtual_joined applications/row_log",
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_cases_pass_on_executors(part: str) -> None:
    files = [str(CASES / f"{name}.case.yaml") for name in PARTS[part].split()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, MASTER: "local-cluster[2,1,1024]"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
