"""Engines of ``engine_process`` as forks of one process that has loaded them: to load what an engine needs takes most
of its processor time. Run as a program it forks an engine for each line, which holds its arguments and a file for what
it prints; the file's neighbour ``.code`` gets its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.runtime import engine_process
from tests.runtime.fakes import until


@dataclass
class Child:
    """An engine; it is asked and ended as a ``Popen`` is."""

    pid: int
    printed: Path
    returncode: int | None = None

    def poll(self) -> int | None:
        code = _code_of(self.printed)
        if self.returncode is None and code.exists():
            self.returncode = int(code.read_text())
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        with until(timeout) as tick:
            while (code := self.poll()) is None:
                tick()
        return code

    def output(self, timeout: float) -> str:
        """What it has printed when it ends."""
        self.wait(timeout)
        return self.printed.read_text(encoding="utf-8")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks them; what still runs when it is closed is killed."""

    def __init__(self) -> None:
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, arguments: list[str], printed: Path) -> Child:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([arguments, str(printed)]) + "\n")
        self.process.stdin.flush()
        return Child(int(self.process.stdout.readline()), printed)

    def close(self) -> None:
        self.process.communicate()


def _code_of(printed: Path) -> Path:
    return printed.with_name(f"{printed.name}.code")


def _fork(arguments: list[str], printed: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
            os.dup2(os.open(os.devnull, flags), number)
        os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        code = engine_process.main(arguments)
    finally:
        if (problem := sys.exc_info()[1]) is not None:
            traceback.print_exception(problem)
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    running: dict[int, Path] = {}

    def reap(*_: Any) -> None:
        """An exit code is there as a whole or not at all; an engine that ends at once waits until it is known."""
        for pid, printed in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                staged = printed.with_name(f"{printed.name}.new")
                staged.write_text(str(os.waitstatus_to_exitcode(status)))
                staged.replace(_code_of(printed))

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        arguments, printed = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        running[pid := _fork(arguments, printed)] = Path(printed)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        print(pid, flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
