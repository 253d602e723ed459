"""The engine's side of the planner: starts it, and tells Spark to use it."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, cast

import pyspark
from pyspark.sql import SparkSession

from ds_dagster.settings import Settings, is_local
from ds_dagster.spark.planner import hand_over
from ds_dagster.spark.planner.hand_over import SOCKET_FILE

_LOG = logging.getLogger(__name__)
PROPERTY = "spark.dsdagster.sharedPlanner"
"""Spark property; ``false``: Spark starts a planning process for each source."""
SERVER = "ds_dagster.spark.planner.server"
PROGRAM = """#!/bin/sh
[ "$1" = --probe ] && exit 0
{path}case "$2" in
{runner} | {workers}) exec {python} -I -S {hand_over} {socket} {python} "$@" ;;
esac
exec {python} "$@"
"""
"""What Spark starts as its Python: ``-m MODULE`` for the modules of its workers."""
INSTALLED = 'PYTHONPATH="${PYTHONPATH#*/python/lib/py4j-*-src.zip:}"\n'
"""Lets workers import the installed PySpark. Spark puts archives of it first, which hold no byte code: each kind of
worker compiles for half a second then, and each fork compiles what it imports."""
MODULES: Mapping[str, str] = MappingProxyType({"runner": hand_over.RUNNER, "workers": hand_over.WORKERS})
"""Modules that forks of the server run."""
PROGRAM_FILE = "python"
BACKLOG = 256
IMPORT_SECONDS = 60.0
"""How long the first source waits for the server's imports."""
PRELOADED = ("psycopg2", "psycopg2.extras", "orjson", "numpy", "pyarrow.compute")
"""Modules that sources import in their first calls."""
ONE_THREAD: Mapping[str, str] = MappingProxyType(
    {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
)
"""Environment of the server: only a process with one thread forks safely, and imports of NumPy and Arrow start
others."""
HASHES: Mapping[str, str] = MappingProxyType({"PYTHONHASHSEED": "0"})
"""As ``spark-submit`` sets it: workers agree on the hash of a text."""


@dataclass(slots=True)
class Planner:
    """The planner of this process; at most one runs, with a folder for its program and socket."""

    process: subprocess.Popen[bytes] | None = None
    _folder: Path | None = None
    _modules: tuple[str, ...] = ()
    _is_refused: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def program(self, module: str) -> str | None:
        """Path of the program for Spark, when the planner has imported a source's module; None if it cannot run here.
        Spark gives a process ten seconds, so the first source waits here."""
        with self._lock:
            if self._is_refused:
                return None
            try:
                return str(self._ensured(module))
            except (OSError, subprocess.SubprocessError) as problem:
                self._is_refused = True
                self._end()
                _LOG.warning("each source gets a planning process of its own: %s", problem)
                return None

    def stop(self) -> None:
        """End the planner; its forks end with their queries."""
        with self._lock:
            self._end()

    def _ensured(self, module: str) -> Path:
        if self.process is not None and self.process.poll() is not None:
            self._reap()  # running queries know the program by its path
        if self._folder is None or not _is_ours(self._folder):  # systems remove old files of temporary folders
            self._end()
            self._folder = Path(tempfile.mkdtemp(prefix="ds-planner-"))
        program, address = self._folder / PROGRAM_FILE, self._folder / SOCKET_FILE
        is_new = self.process is None or module not in self._modules
        self._modules = self._modules if module in self._modules else (*self._modules, module)
        if self.process is None:
            _write_program(program, address)
            self.process = _started(address, self._modules)
        if is_new:
            hand_over.hand_over(str(address), {hand_over.LOAD.encode(): module.encode()}, IMPORT_SECONDS)
        return program

    def _end(self) -> None:
        self._reap()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _reap(self) -> None:
        if self.process is not None:
            cast(Any, self.process.stdin).close()
            self.process.wait()
            self.process = None


def _is_ours(folder: Path) -> bool:
    """Whether the folder and its files still exist, and nobody else has made the folder."""
    files = (folder / PROGRAM_FILE, folder / SOCKET_FILE)
    return folder.is_dir() and folder.lstat().st_uid == os.geteuid() and all(file.exists() for file in files)


def _write_program(program: Path, address: Path) -> None:
    """Raises OSError where the folder may hold no programs."""
    files = {"python": sys.executable, "hand_over": hand_over.__file__, "socket": str(address)}
    names = {name: quote(value) for name, value in {**MODULES, **files}.items()}
    path = INSTALLED if Path(str(pyspark.__file__)).is_file() else ""
    program.write_text(PROGRAM.format(path=path, **names), encoding="utf-8")
    program.chmod(0o700)
    subprocess.run([program, "--probe"], check=True)


def _started(address: Path, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    """The server. Its socket takes requests at once, and answers when its modules are imported."""
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address))
        listener.listen(BACKLOG)
        descriptor = listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", SERVER, str(descriptor), *PRELOADED, *modules],
            stdin=subprocess.PIPE,
            stdout=sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL,
            pass_fds=[descriptor],
            env={**os.environ, **ONE_THREAD, **HASHES},
        )


PLANNER = Planner()
"""The planner of this process."""
atexit.register(PLANNER.stop)


def can_share(master: str, wanted: str) -> bool:
    """Whether sources share a planner: not on a cluster, whose executors run the same program, and only on Linux.

    Args:
        master: Spark's; empty: a local one.
        wanted: value of :data:`PROPERTY`.
    """
    return sys.platform == "linux" and is_local(master or "local") and wanted.lower() != "false"


def shares_planner(settings: Settings, providers: Collection[str]) -> bool:
    """Whether all Python sources of a job, if it has any, are planned by one process, which is started now.

    Args:
        settings: of the project.
        providers: ``module:Class`` of each source; empty for a source of Spark's.
    """
    modules = sorted({provider.partition(":")[0] for provider in providers if provider})
    if not modules:
        return True
    is_possible = can_share(settings.engine.master or "", settings.spark.get(PROPERTY, "true"))
    return is_possible and all(PLANNER.program(module) for module in modules)


def share_planner(spark: SparkSession, module: str) -> None:
    """Let the sources that are registered from now on be planned by forks of one process, if that is possible."""
    context = spark.sparkContext
    if can_share(context.master or "", str(spark.conf.get(PROPERTY, "true"))):
        context.pythonExec = PLANNER.program(module) or context.pythonExec
