"""The processor time of a tier, which scripts/counted.py writes down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "counted.py"
LEAVING = """
import subprocess, sys
busy = "import time\\nwhile time.process_time() < 0.5: pass"
subprocess.Popen([sys.executable, "-c", busy], start_new_session=True)
sys.exit(3)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes come to another parent on Linux alone")
def test_a_process_that_outlives_who_started_it_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "records" / "unit.cpu"
    done = subprocess.run([sys.executable, str(SCRIPT), str(file), sys.executable, "-c", LEAVING], check=False)
    assert done.returncode == 3
    assert 0.5 <= float(file.read_text()) < 5


def test_a_command_that_a_signal_ended(tmp_path: Path) -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"  # no parent can have it ignored
    command = [sys.executable, str(SCRIPT), str(tmp_path / "cpu"), sys.executable, "-c", killed]
    assert subprocess.run(command, check=False).returncode == 128 + 9
