"""The engine as a detached process on this machine, started by the first caller that finds no running engine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ds_dagster.clock import Clock
from ds_dagster.errors import DsError, error
from ds_dagster.runtime.processes.environment import inherited
from ds_dagster.runtime.processes.liveness import engine_name
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import EngineStatus
from ds_dagster.settings import Settings

OUTPUT_LIMIT = 10_000_000
JVM_GRACE_SECONDS = 30.0


@dataclass(slots=True)
class LocalLauncher:
    """Starts ``python -m ds_dagster.runtime.engine`` in its own session, so that Ctrl-C in the starter's terminal, or
    the end of a Dagster step or of ``dagster dev``, does not end it.

    Attributes:
        settings: of the project.
        clock: for waiting.
        command: to run instead of the engine (in tests).
    """

    settings: Settings
    clock: Clock
    command: Sequence[str] = ()
    name: str = "local"
    shares_host: bool = True
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def for_pool(self, pool: str) -> LocalLauncher:
        """A launcher for the engine of a compute pool."""
        return LocalLauncher(replace(self.settings, pool=pool), self.clock, self.command)

    def ensure(self, watch: Callable[[], EngineStatus], seconds: float) -> EngineStatus:
        """Start the engine if it is gone and wait until it is ready; a slow engine is reported as STARTING. See
        :class:`Launcher`.

        Raises:
            DsError: ENGINE_START_FAILED, ENGINE_START_SLOW.
        """
        end = self.clock.monotonic() + max(seconds, JVM_GRACE_SECONDS)
        while (status := watch()).state == "STOPPING" and self.clock.monotonic() < end:
            self.clock.sleep(0.25)
        if status.state == "GONE":
            self._child = None  # an earlier engine: its end says nothing of this start, which may be another process's
            status = self._start(watch)
        end = self.clock.monotonic() + seconds
        while status.state in ("GONE", "STARTING") and self.clock.monotonic() < end:
            self._check_child(watch)
            self.clock.sleep(0.1)
            status = watch()
        if status.state == "GONE" and self._child is not None and self._child.poll() is None:
            return EngineStatus(self._engine, "STARTING", self._child.pid, socket.gethostname())
        if status.state == "GONE" and seconds > 0:
            raise error("ENGINE_START_SLOW", seconds=int(seconds), log=str(Places.of(self.settings).engine_output))
        return status

    def _start(self, watch: Callable[[], EngineStatus]) -> EngineStatus:
        places = Places.of(self.settings)
        lock = FileLock(places.start_lock)
        if not lock.acquire({"pid": os.getpid()}):
            return EngineStatus(self._engine, "STARTING")
        try:
            status = watch()
            if status.state == "GONE":
                self._child = launch(self.settings, self.command)
                status = self._until_visible(watch)
            return status
        finally:
            lock.release()

    @property
    def _engine(self) -> str:
        return engine_name(self.settings.pool)

    def _until_visible(self, watch: Callable[[], EngineStatus]) -> EngineStatus:
        """Hold the start lock until the engine holds its own, so that the next starter sees it."""
        end = self.clock.monotonic() + JVM_GRACE_SECONDS
        while (status := watch()).state == "GONE" and self.clock.monotonic() < end:
            self._check_child(watch)
            self.clock.sleep(0.05)
        return status

    def _check_child(self, watch: Callable[[], EngineStatus]) -> None:
        """A child that ended before it was ready is a failure, unless it ended because another engine was first."""
        code = None if self._child is None else self._child.poll()
        if code is None:
            return
        self._child = None
        if watch().state != "GONE":
            return
        output = Places.of(self.settings).engine_output
        raise error("ENGINE_START_FAILED", code=code, reason=_last_line(output), log=str(output), detail=tail(output))


def launch(settings: Settings, command: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start the engine detached: own session, no inherited files, a clean environment, output into a log file."""
    output = Places.of(settings).engine_output
    _rotate(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    environment = inherited(os.environ) | {"PYTHONUNBUFFERED": "1"}
    try:
        with output.open("ab") as log:
            child = subprocess.Popen(
                [*(command or engine_command(settings.root, settings.state, settings.environment, settings.pool))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=settings.root,
                env=environment,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as problem:
        raise _not_started(output, problem) from problem
    # an engine that ends while its starter lives on must not stay a zombie
    threading.Thread(target=child.wait, name="ds-engine-reaper", daemon=True).start()
    return child


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log file (of its last 16 KiB), as one text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def engine_command(root: Path, state: Path, environment: str, pool: str) -> list[str]:
    """The command of an engine. Places and identity are passed on, so that a starter with overrides and its engine use
    the same journal."""
    arguments = [
        "--root", str(root), "--state", str(state), "--environment", environment,
        *(("--pool", pool) if pool else ()),
    ]  # fmt: skip
    return [sys.executable, "-m", "ds_dagster.runtime.engine", *arguments]


def _rotate(output: Path) -> None:
    if output.is_file() and output.stat().st_size > OUTPUT_LIMIT:
        output.replace(output.with_suffix(".out.1"))


def _last_line(output: Path) -> str:
    lines = [line for line in tail(output).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"


def _not_started(output: Path, problem: OSError) -> DsError:
    return error("ENGINE_START_FAILED", code="none", reason=str(problem), log=str(output))
