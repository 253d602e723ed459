"""Processes by identity: pid and start time, so that another process with a recycled pid is never taken for ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """Command that starts a server.

    Attributes:
        argv: the command; never a secret.
        cwd: working folder.
        environment: the whole environment; nothing is inherited from this process.
        user, group: ids to run as; None: those of this process.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True)
class StopStep:
    """One step of stopping: send a signal, then wait for at most ``seconds``."""

    signal: signal.Signals
    seconds: float


def start_token(pid: int) -> str | None:
    """Start time of a process, as a text that no later process of the same pid has; None if there is no process.

    A zombie counts as gone: it runs nothing and holds nothing.
    """
    if pid <= 0:
        return None
    return _linux_token(pid) if sys.platform == "linux" else _ps_token(pid)


def is_alive(pid: int, token: str) -> bool:
    """Whether the process with this pid and this token still runs."""
    _reap(pid)
    return start_token(pid) == token


def spawn(launch: ServerCommand, log: Path) -> int:
    """Start a detached process (own session, no terminal, output appended to ``log``); returns its pid.

    The process continues when this process ends; :func:`end` stops it.

    Raises:
        OSError: the command cannot be run.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            launch.argv,
            cwd=launch.cwd,
            env=dict(launch.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=launch.user,
            group=launch.group,
            extra_groups=None if launch.user is None else [],
        )
    process.returncode = 0  # detached on purpose: Popen must neither wait for it nor warn that it still runs
    return process.pid


def end(pid: int, token: str, steps: Sequence[StopStep]) -> bool:
    """End a process by escalating signals; True if it is gone. Does nothing to a process with another token."""
    for step in steps:
        if not is_alive(pid, token):
            return True
        with suppress(ProcessLookupError):
            os.kill(pid, step.signal)
        deadline = time.monotonic() + step.seconds
        while is_alive(pid, token) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    return not is_alive(pid, token)


def clean_environment(**extra: str) -> dict[str, str]:
    """A small environment for a server: variables to find programs and files, without this process's secrets."""
    inherited = ("PATH", "HOME", "TMPDIR", "TZ", "JAVA_HOME")
    return {name: os.environ[name] for name in inherited if name in os.environ} | {"LANG": "C.UTF-8"} | extra


def _reap(pid: int) -> None:
    """Collect a dead child of this process, so that it does not stay a zombie; other processes are not touched."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _linux_token(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = text.rpartition(")")[2].split()
    threads, started = int(rest[16]), rest[18]
    # a killed JVM is a zombie while its other threads still let go of ports and locks
    gone = state in ("Z", "X") and threads <= 1
    return None if gone else f"{boot}:{started}"


def _ps_token(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return None if not text or text.startswith("Z") else text.split(None, 1)[1]
