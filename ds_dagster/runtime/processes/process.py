"""Processes by pid *and* start time: a pid alone may be reused, and a zombie still answers signal 0."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process. ``started``: see :func:`start_mark`; empty if unknown."""

    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessId:
        """This process."""
        return cls(os.getpid(), start_mark(os.getpid()) or "")

    def is_alive(self) -> bool:
        """Whether exactly this process runs (a zombie does not)."""
        return bool(self.started) and start_mark(self.pid) == self.started

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal if the process still runs; False if it has ended."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def start_mark(pid: int, proc: Path = _PROC) -> str | None:
    """A text that differs for every process that ever had this pid; None if no process has it, or a zombie."""
    if proc.is_dir():
        return _from_proc(pid, proc)
    return _from_ps(pid)


def _from_proc(pid: int, proc: Path) -> str | None:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X", "x") else f"{_boot(proc)}/{fields[19]}"


def _boot(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return "boot"


def _from_ps(pid: int) -> str | None:
    program = shutil.which("ps")
    if program is None:
        return None
    shown = subprocess.run(
        [program, "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    ).stdout.split(maxsplit=1)
    return None if len(shown) < 2 or shown[0].startswith("Z") else " ".join(shown[1].split())
