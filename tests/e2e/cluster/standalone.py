"""A Spark standalone cluster on this host, of the jars of the installed pyspark: one master and its workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ds_dagster.jars import java_command, pyspark_home
from ds_dagster.testing.short_lived import JAVA_OPTIONS
from tests.e2e.feeding import is_dead, until

HOST = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


class Standalone:
    """Started on creation, with workers of one core and a gigabyte each. ``host``: a command in front of a worker's,
    which makes it a host with other files."""

    def __init__(self, folder: Path, workers: int = 2, host: Sequence[str] = ()) -> None:
        self.folder, self.port, self.host = folder, free_port(), host
        self.url = f"spark://{HOST}:{self.port}"
        self.master = self._start("master.Master", "--port", str(self.port))
        self.workers: list[subprocess.Popen[bytes]] = []
        until(lambda: answers(self.port), "the master listens", 60)
        for _ in range(workers):
            self.add_worker()

    def add_worker(self, cores: int = 1) -> None:
        """One more worker, with a gigabyte for each core."""
        offer = ("--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(self.folder / "work"))
        self.workers.append(self._start("worker.Worker", *offer, self.url))

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = pyspark_home()
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": HOST}
        command = [java_command(), "-Xmx256m", *JAVA_OPTIONS.split(), "-cp", f"{home}/jars/*", f"{DEPLOY}.{name}"]
        before = self.host if name.startswith("worker") else ()
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*before, *command, "--host", HOST, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def executors(self) -> list[int]:
        """Process ids of the executors that live."""
        return [pid for worker in self.workers for pid in executors_of(worker.pid)]

    def kill_executor(self, number: int = 0) -> int:
        """kill -9 of one executor; its process id."""
        pid = self.executors()[number]
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_dead(pid), f"executor {pid} is dead", 60)
        return pid

    def kill_worker(self, number: int = 0) -> None:
        """kill -9 of a worker and of its executors, as when its host goes."""
        worker = self.workers.pop(number)
        executors = executors_of(worker.pid)
        for pid in (worker.pid, *executors):
            os.kill(pid, signal.SIGKILL)
        worker.wait(60)
        until(lambda: all(map(is_dead, executors)), "the executors are dead", 60)

    def close(self) -> None:
        """End all processes by their ids."""
        executors = self.executors()
        for process in (*self.workers, self.master):
            process.kill()  # the others it may ignore, as a background job of a shell
            process.wait(60)
        for pid in executors:
            until(lambda: is_dead(pid), f"executor {pid} is dead", 60)  # noqa: B023


def executors_of(worker: int) -> list[int]:
    """Process ids of the executors of a worker that live."""
    listed = subprocess.run(["pgrep", "-P", str(worker), "-f", EXECUTOR], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split() if not is_dead(int(pid))]
