"""The processes that plan for Python sources, alone: ten CDC sources as Spark starts them, up to their first answer.

Ours are forks of one process that has imported everything; the process and its start count too. The peer is Spark's own
way: a Python process for each source. No server is asked, and no JVM runs: this program stands for Spark.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from tempfile import gettempdir
from typing import Any

import pyspark.cloudpickle
import pyspark.serializers
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.measure import Pairs, Result, Size, cpu_seconds, proportional_megabytes, results, say
from ds_dagster.spark.planner.hand_over import RUNNER
from ds_dagster.spark.planner.shared import Planner
from ds_dagster.spark.postgres_cdc.source import PostgresCdcSource

serializers: Any = pyspark.serializers  # without types
cloudpickle: Any = pyspark.cloudpickle
SECONDS = 120.0
INITIAL_OFFSET = 884
"""Spark's number of its first request to a source."""
SECRET = "benchmark"
OPTIONS = {
    "connector": "ds_dagster.stores.postgres.connection:PostgresAddress",
    "store": "pg",
    "tables": "public.sales",
    "columns": StructType([StructField("id", LongType()), StructField("v", StringType())]).json(),
    "slot": "planned",
    "url": "postgresql://localhost/shop",
    "username": "cdc",
    "password": "unused",
}


@dataclass(slots=True)
class Planning:
    """One source's process, connected to this program."""

    launched: subprocess.Popen[bytes]
    connection: socket.socket
    file: Any
    pid: int
    seconds: float

    def end(self) -> None:
        """Close the connection, as Spark does when a query ends, and end the process that was launched."""
        with suppress(OSError):
            self.file.close()
        self.connection.close()
        self.launched.kill()
        self.launched.wait()


def planners(size: Size) -> list[Result]:
    """Both sides in turns."""
    count = size.of(10, 2)
    seconds = Pairs("first answer of a CDC source", "s", False)
    cpu = Pairs(f"CPU of {count} CDC sources up to their first answers", "s", False)
    memory = Pairs(f"memory of the planning processes of {count} CDC sources", "MB", False)
    for run in range(size.runs):
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            listener.settimeout(SECONDS)
            theirs = _measured(listener, sys.executable, count)
            ours = _shared(listener, count)
        say(f"planners, {run}: ours {ours}, peer {theirs}")
        for pairs, a, b in zip((seconds, cpu, memory), ours, theirs, strict=True):
            pairs.add(a, b)
    return results((seconds, cpu, memory))


def _shared(listener: socket.socket, count: int) -> tuple[float, float, float]:
    planner = Planner()
    try:
        program = planner.program(PostgresCdcSource.__module__)
        assert program is not None and planner.process is not None
        return _measured(listener, program, count, [planner.process.pid])
    finally:
        planner.stop()


def _measured(
    listener: socket.socket, program: str, count: int, server: Sequence[int] = ()
) -> tuple[float, float, float]:
    """Seconds of each, CPU seconds of all, megabytes of all."""
    running = [_started(listener, program) for _ in range(count)]
    try:
        pids = [*server, *(planning.pid for planning in running)]
        each = sum(planning.seconds for planning in running) / count
        return round(each, 2), round(cpu_seconds(pids), 2), round(proportional_megabytes(pids), 1)
    finally:
        for planning in running:
            planning.end()


def _started(listener: socket.socket, program: str) -> Planning:
    """Launch a process as Spark's factory of workers does, and ask for the first offset."""
    begun = time.perf_counter()
    port = {"PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": SECRET}
    launched = subprocess.Popen([program, "-m", RUNNER], env={**os.environ, **port})
    connection, _ = listener.accept()
    connection.settimeout(SECONDS)
    file = connection.makefile("rwb")
    file.read(serializers.read_int(file))
    serializers.write_with_length(b"ok", file)
    file.flush()
    pid = serializers.read_int(file)
    source = PostgresCdcSource(OPTIONS)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for text in (version, gettempdir()):
        serializers.write_with_length(text.encode(), file)
    serializers.write_int(0, file)
    serializers.write_with_length(cloudpickle.dumps(source), file)
    serializers.write_with_length(source.schema().json().encode(), file)
    serializers.write_int(1000, file)
    serializers.write_int(INITIAL_OFFSET, file)
    file.flush()
    if serializers.read_int(file) != 0:
        raise SystemExit("the source was refused")
    file.read(serializers.read_int(file))
    return Planning(launched, connection, file, pid, time.perf_counter() - begun)
