"""All test cases and the conformance suite, run by executors that are processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ds_dagster.testing.short_lived import MASTER
from tests.e2e.feeding import ROOT

CASES = ROOT / "tests" / "cases"
FOLDERS = sorted(path.name for path in CASES.iterdir() if path.is_dir() and path.name != "long")
IN_ONE_PROCESS = {"test_power_loss.py"}
"""Its file system loses what its own process has written."""
CONFORMANCE = sorted(
    path.name for path in (ROOT / "tests" / "conformance").glob("test_*.py") if path.name not in IN_ONE_PROCESS
)


def run_on_executors(*arguments: str) -> None:
    """A pytest of its own, whose sessions have two executors of one core."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, MASTER: "local-cluster[2,1,1024]"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_executors_tell_which_rows_were_late() -> None:
    """The time that makes a row late is known where the job runs; tasks of other processes take it along."""
    run_on_executors(str(CASES / "windows" / "tumble" / "late_rows.case.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_cases_pass_on_executors(folder: str) -> None:
    run_on_executors(str(CASES / folder))


@pytest.mark.slow
@pytest.mark.parametrize("file", CONFORMANCE)
def test_sinks_and_sources_pass_on_executors(file: str) -> None:
    run_on_executors("-m", "not slow", str(ROOT / "tests" / "conformance" / file))
