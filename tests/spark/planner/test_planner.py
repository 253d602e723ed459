"""The planner without Spark: what a process that Spark starts has to do, and what happens without a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pyspark.serializers
import pytest

from ds_dagster.spark.planner.hand_over import RUNNER, WORKERS
from ds_dagster.spark.planner.shared import Planner

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(sys.platform != "linux", reason="the planner needs Linux"),
]
serializers: Any = pyspark.serializers  # without types
SOURCE = "ds_dagster.spark.postgres_cdc.source"
SECONDS = 60.0


@dataclass
class Worker:
    """A process that has connected to the test, which stands for Spark."""

    pid: int
    file: Any
    connection: socket.socket

    def close(self) -> None:
        self.file.close()
        self.connection.close()


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    made, folders = tempfile.mkdtemp, []

    def folder(prefix: str) -> str:
        folders.append(Path(made(prefix=prefix, dir="/tmp")))  # a socket's path has at most 107 bytes
        return str(folders[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", folder)
    planner = Planner()
    yield planner
    planner.stop()
    assert folders and not any(folder.exists() for folder in folders)


def launched(listener: socket.socket, program: str, module: str = RUNNER) -> subprocess.Popen[bytes]:
    """As Spark's factory of workers starts one."""
    secret = {"PYTHON_WORKER_FACTORY_SECRET": "it is me", "OF_THE_JVM": "a=b\nc"}
    return subprocess.Popen(
        [program, "-m", module],
        env={**os.environ, **secret, "PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1])},
        stdin=subprocess.DEVNULL,
    )


def connected(listener: socket.socket) -> Worker:
    listener.settimeout(SECONDS)
    connection, _ = listener.accept()
    connection.settimeout(SECONDS)
    file = connection.makefile("rwb")
    assert serializers.UTF8Deserializer().loads(file) == "it is me"
    serializers.write_with_length(b"ok", file)
    file.flush()
    return Worker(serializers.read_int(file), file, connection)


def started(listener: socket.socket, program: str) -> Worker:
    """A worker of the server: the program that was started in its place has ended."""
    process = launched(listener, program)
    worker = connected(listener)
    assert process.wait(SECONDS) == 0
    return worker


def has_ended(pid: int) -> bool:
    end = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def program_of(planner: Planner, module: str = SOURCE) -> str:
    program = planner.program(module)
    assert program is not None
    return program


def server_of(planner: Planner) -> int:
    assert planner.process is not None
    return planner.process.pid


def test_workers_are_forks_of_one_server_and_end_with_their_connection(planner: Planner) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        program = program_of(planner)
        workers = [started(listener, program) for _ in range(3)]
        server = server_of(planner)
        for worker in workers:
            assert Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[1] == str(server)
        assert len([*Path(f"/proc/{server}/task").iterdir()]) == 1, "a process with threads does not fork safely"
        workers[0].close()
        assert has_ended(workers[0].pid)
        assert all(Path(f"/proc/{worker.pid}").exists() for worker in workers[1:])
        for worker in workers[1:]:
            worker.close()
        assert all(has_ended(worker.pid) for worker in workers[1:])


def test_a_worker_has_the_environment_that_spark_gives(planner: Planner) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        worker = started(listener, program_of(planner))
        # its first answer is about what the test sends: a version that is not this Python's
        serializers.write_with_length(b"0.0", worker.file)
        worker.file.flush()
        assert serializers.read_int(worker.file) == -2
        assert "PYTHON_VERSION_MISMATCH" in serializers.UTF8Deserializer().loads(worker.file)
        worker.close()
        assert has_ended(worker.pid)


def test_spark_gets_a_process_of_its_own_when_the_server_is_gone_and_the_next_source_brings_it_back(
    planner: Planner,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        program = program_of(planner)
        before = started(listener, program)
        server = server_of(planner)
        assert planner.process is not None
        planner.process.kill()
        planner.process.wait(SECONDS)
        alone = launched(listener, program)
        worker = connected(listener)
        assert worker.pid == alone.pid, "no server: the program itself becomes the worker"
        worker.close()
        assert alone.wait(SECONDS) is not None
        assert Path(f"/proc/{before.pid}").exists(), "a fork does not need its server"
        assert program_of(planner) == program and server_of(planner) != server
        again = started(listener, program)
        for one in (again, before):
            one.close()
            assert has_ended(one.pid)


@pytest.mark.parametrize("files", [("python", "socket"), ("socket",), ("python",)])
def test_a_folder_whose_files_were_removed_is_replaced(planner: Planner, files: tuple[str, ...]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        program = program_of(planner)
        for name in files:
            Path(program).with_name(name).unlink()
        again = program_of(planner)
        assert again != program
        worker = started(listener, again)
        worker.close()
        assert has_ended(worker.pid)


def test_the_server_imports_what_further_sources_need(planner: Planner) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        program = program_of(planner)
        server = server_of(planner)
        program_of(planner, "ds_dagster.spark.files.source")
        program_of(planner, "no.such.module")
        worker = started(listener, program)
        assert server_of(planner) == server
        worker.close()
        assert has_ended(worker.pid)


def test_other_modules_run_as_always(planner: Planner) -> None:
    done = subprocess.run([program_of(planner), "-m", "this"], capture_output=True, text=True, check=True)
    assert "Zen" in done.stdout


def test_the_server_ends_with_the_process_that_started_it(planner: Planner) -> None:
    program = program_of(planner)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        started(listener, program).close()  # the server has begun to serve
        process = planner.process
        assert process is not None and process.stdin is not None
        process.terminate()  # as a service manager does to all processes at once: the engine still needs its sources
        started(listener, program).close()
    process.stdin.close()  # as the kernel does when the engine is killed
    assert process.wait(SECONDS) == 0
    assert not Path(program).parent.exists()


def test_a_folder_that_may_hold_no_programs(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise PermissionError("mounted noexec")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert planner.program(SOURCE) is None
    assert planner.program(SOURCE) is None


def test_workers_import_the_installed_pyspark(planner: Planner) -> None:
    """Spark puts its archives before the path of who started it."""
    home, program = Path(pyspark.__file__).parent, planner.program(SOURCE)
    (py4j,) = (home / "python" / "lib").glob("py4j-*-src.zip")
    archives = (home / "python" / "lib" / "pyspark.zip", py4j, home / "jars" / "spark-core.jar")
    path = os.pathsep.join(map(str, (*archives, "/of the project")))
    say = "import pyspark, py4j, sys; print(pyspark.__file__, py4j.__file__, '/of the project' in sys.path, sep='\\n')"
    assert program
    done = subprocess.run(
        [program, "-c", say], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    ours, theirs, is_kept = done.stdout.splitlines()
    assert (ours, is_kept) == (pyspark.__file__, "True")
    assert ".zip" not in theirs


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def daemon(program: str) -> tuple[subprocess.Popen[bytes], int]:
    """A daemon of workers as Spark starts one, and its port."""
    process = subprocess.Popen(
        [program, "-m", WORKERS, "pyspark.sql.worker.create_data_source"],
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "it is me", "SPARK_REUSE_WORKER": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    return process, serializers.read_int(process.stdout)


def worker_at(port: int) -> Worker:
    connection = socket.create_connection(("127.0.0.1", port), SECONDS)
    file = connection.makefile("rwb")
    pid = serializers.read_int(file)
    serializers.write_with_length(b"it is me", file)
    file.flush()
    assert serializers.UTF8Deserializer().loads(file) == "ok"
    return Worker(pid, file, connection)


def test_daemons_of_workers_are_forks_of_the_server_and_end_with_their_standard_input(planner: Planner) -> None:
    process, port = daemon(program_of(planner))
    with closing(worker_at(port)) as worker:
        forked = parent(worker.pid)
        assert parent(forked) == server_of(planner)
        assert process.poll() is None, "Spark watches it"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0
        assert has_ended(forked)
        assert has_ended(worker.pid)
    assert process.stdout is not None
    process.stdout.close()


def test_a_daemon_ends_with_the_program_that_spark_watches(planner: Planner) -> None:
    """Spark closes its ends of the streams when the program ends; they are closed here, as its ends would be."""
    process, port = daemon(program_of(planner))
    with closing(worker_at(port)) as worker:
        forked = parent(worker.pid)
        process.kill()
        process.wait(SECONDS)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        assert has_ended(forked)
        assert has_ended(worker.pid)


def test_without_a_server_the_daemon_is_spark_s_own(planner: Planner) -> None:
    program = program_of(planner)
    server = server_of(planner)
    os.kill(server, signal.SIGKILL)
    assert planner.process is not None
    planner.process.wait(SECONDS)
    process, port = daemon(program)
    with closing(worker_at(port)) as worker:
        assert parent(worker.pid) == process.pid
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(SECONDS)
        assert has_ended(worker.pid)
        process.stdout.close()
