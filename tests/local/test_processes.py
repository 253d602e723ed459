"""A process is its pid and its start: dead, zombie and recycled ones are told apart, only ours are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ds_dagster.local.processes import ServerCommand, StopStep, clean_environment, end, is_alive, spawn, start_token

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: time.sleep(60)
"""
GENTLE = (StopStep(signal.SIGTERM, 0.3), StopStep(signal.SIGKILL, 10.0))
Wait = Callable[[Callable[[], bool]], None]


def launch(tmp_path: Path, code: str) -> ServerCommand:
    return ServerCommand((sys.executable, "-c", code), tmp_path, clean_environment())


def test_this_process_has_a_lasting_token() -> None:
    token = start_token(os.getpid())
    assert token
    assert start_token(os.getpid()) == token
    assert is_alive(os.getpid(), token)


def test_a_recycled_pid_is_somebody_else() -> None:
    token = start_token(os.getpid())
    assert token is not None
    assert not is_alive(os.getpid(), token + "1")
    assert end(os.getpid(), token + "1", GENTLE), "nothing of ours runs there, and nothing was signalled"


@pytest.mark.parametrize("pid", [0, -1, 2**31 - 1])
def test_no_process_has_no_token(pid: int) -> None:
    assert start_token(pid) is None


def test_a_zombie_is_gone(wait_until: Wait) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    wait_until(lambda: start_token(child) is None)
    os.waitpid(child, 0)


def test_a_stubborn_process_is_ended_by_the_last_step(tmp_path: Path, wait_until: Wait) -> None:
    log = tmp_path / "log"
    pid = spawn(launch(tmp_path, STUBBORN), log)
    token = start_token(pid) or ""
    wait_until(lambda: "ready" in log.read_text())
    assert not end(pid, token, GENTLE[:1])
    assert end(pid, token, GENTLE)
    assert start_token(pid) is None


def test_a_spawned_process_survives_its_starter(tmp_path: Path, wait_until: Wait) -> None:
    code = (
        "import sys; from pathlib import Path; from ds_dagster.local.processes import *;"
        f"command = ServerCommand((sys.executable, '-c', {STUBBORN!r}), Path('.'), clean_environment());"
        "print(spawn(command, Path('log')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    token = start_token(pid)
    assert token is not None
    assert os.getsid(pid) == pid, "a session of its own: no Ctrl-C reaches it"
    wait_until(lambda: "ready" in (tmp_path / "log").read_text())
    assert end(pid, token, GENTLE)


def test_a_server_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Wait) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    log = tmp_path / "log"
    spawn(launch(tmp_path, "import os; print(dict(os.environ), 'end', flush=True)"), log)
    wait_until(lambda: "end" in log.read_text())
    assert "hush" not in log.read_text()
