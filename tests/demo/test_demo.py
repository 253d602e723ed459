"""``ds demo``: compared with its model, and nothing is left of it, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ds_dagster import local
from ds_dagster.demo.example import copy_example, example_source, find_example
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places

DS = str(Path(sys.executable).with_name("ds"))
SECONDS = 900


def processes_of(folder: Path) -> list[int]:
    """Processes that work in a folder or name it in their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace")
            inside = (place / "cwd").resolve().is_relative_to(folder)
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if (inside or str(folder) in words) and state != "Z":
            found.append(int(place.name))
    return found


def test_copy_is_the_example_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder = copy_example(example_source(), tmp_path / "copy")
    assert find_example(folder) == folder
    (folder / "sql" / "stores.sql").write_text("-- mine\n")
    copy_example(example_source(), folder)
    assert (folder / "sql" / "stores.sql").read_text() == "-- mine\n"


def test_the_example_compiles_where_it_is_copied_to(tmp_path: Path) -> None:
    folder = copy_example(example_source(), tmp_path / "copy")
    done = subprocess.run([DS, "check", "--json"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_check_is_right_and_leaves_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [DS, "demo", "--check", "--clicks", "1000", "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert {r["relation"]: r["found"] for r in found["relations"]}["url_visits"] == 5
    assert not list(tmp_path.glob("ds-demo-*"))
    assert processes_of(tmp_path) == []


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_sigterm_on_the_way_stops_what_was_started(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    log = tmp_path / "err"
    with log.open("wb") as output:
        process = subprocess.Popen([DS, "demo", str(folder), "--clicks", "100"], cwd=tmp_path, stderr=output)
    try:
        deadline = time.monotonic() + SECONDS
        while "starting dagster dev" not in log.read_text() and time.monotonic() < deadline:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
        local.down(folder / ".ds")
    assert all(server.state == "stopped" for server in local.status(folder / ".ds"))
    assert not locks.is_held(Places(folder / ".ds").jvm_lock)
    assert processes_of(folder) == []
