"""The server: imports the sources once, and forks a process for each request.

``python -m ds_dagster.spark.planner.server DESCRIPTOR MODULE…``: the descriptor is of a listening socket. The server
ends, and removes the socket's folder, when its standard input ends, which is when the engine ends.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ds_dagster.spark.planner import companions
from ds_dagster.spark.planner.hand_over import ACCEPTED, COMPANION, DAEMON, LOAD, RUNNER, STREAMS, WORKERS
from ds_dagster.spark.planner.rows import send_rows

STOPS = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal or a service manager sends to all processes at once: the engine ends in order, and the server
behind it."""
REQUEST_SECONDS = 5.0
WORKER_MODULES = (
    WORKERS,
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
)
"""What daemons and their workers would import, each for itself."""
_CHUNK = 65_536
_HANGUP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
Environment = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What a program of :mod:`ds_dagster.spark.planner.hand_over` sends: names and values, empty if not complete, and
    descriptors of its streams, if the fork is to have them."""

    values: Environment
    streams: Sequence[int] = ()

    def close(self) -> None:
        """Close the streams in this process."""
        for descriptor in self.streams:
            os.close(descriptor)


def main() -> None:
    """Serve until standard input ends; in a fork, plan until Spark closes the connection, or fork workers."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    folder = Path(listener.getsockname()).parent
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks leave no zombies
    companions.PLACE.folder = folder
    load([RUNNER, *WORKER_MODULES, *sys.argv[2:]])
    request = serve(listener)
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    listener.close()
    environment = dict(request.values)
    workers = environment.pop(DAEMON.encode(), b"").decode()
    become(environment, request.streams)
    if workers:
        fork_workers(workers)
    else:
        plan()


def load(modules: Iterable[str]) -> None:
    """Import modules, and keep them out of collections, which would write to the pages that forks share. A module that
    is missing fails in the source's own process, which can report it."""
    for module in modules:
        with suppress(ImportError):
            import_module(module)
    gc.collect()
    gc.freeze()


def serve(listener: socket.socket) -> ForkRequest | None:
    """Import and fork as requested. Returns the request in a fork, and None when standard input ends. The connection
    of a fork that has streams is open as long as the fork runs."""
    lifeline = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([listener, lifeline], [], [])
        if lifeline in ready:
            return None
        connection, _ = listener.accept()
        with connection:
            request = receive(connection)
            if module := request.values.get(LOAD.encode()):
                load([module.decode()])
                answer(connection)
            elif wanted := request.values.get(COMPANION.encode()):
                accompany(wanted.decode(), listener, connection)
            elif request.values and os.fork() == 0:
                answer(connection)
                if request.streams:
                    os.dup(connection.fileno())
                return request
            request.close()


def accompany(request: str, listener: socket.socket, connection: socket.socket) -> None:
    """Start a companion in a fork, unless it runs."""
    try:
        companion = companions.start(request, sys.stdin.fileno())
    except OSError:
        return  # without an answer the source works alone
    if companion is not None:
        with companion.listener:
            if os.fork() == 0:
                listener.close()
                connection.close()
                companion.run()
    answer(connection)


def answer(connection: socket.socket) -> None:
    """Accept a request; the other side may have given up."""
    with suppress(OSError):
        connection.sendall(ACCEPTED)


def receive(connection: socket.socket) -> ForkRequest:
    """A request, read to its end."""
    connection.settimeout(REQUEST_SECONDS)
    parts, streams = [], []
    try:
        while True:
            part, descriptors, _, _ = socket.recv_fds(connection, _CHUNK, len(STREAMS))
            streams.extend(descriptors)
            if not part:
                break
            parts.append(part)
    except OSError:
        parts.clear()
    pairs = [item.partition(b"=") for item in b"".join(parts).split(b"\0")]
    return ForkRequest({name: value for name, _, value in pairs if name}, streams)


def become(environment: Environment, streams: Sequence[int]) -> None:
    """Give a fork the environment, signals and standard streams of a process that Spark starts."""
    for number in (*STOPS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for stream, descriptor in enumerate(streams or [os.open(os.devnull, os.O_RDONLY)]):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environb.clear()
    os.environb.update(environment)


def fork_workers(module: str) -> None:
    """Be Spark's daemon of workers until Spark closes standard input."""
    sys.argv = [WORKERS, module]
    import_module(WORKERS).manager()


def plan() -> None:
    """Connect to Spark and answer its requests until it closes the connection."""
    runner, serializers, util = (import_module(name) for name in (RUNNER, "pyspark.serializers", "pyspark.util"))
    address = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH") or int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
    file, connection = util.local_connect_and_auth(address, os.environ.get("PYTHON_WORKER_FACTORY_SECRET"))
    connection.settimeout(None)
    serializers.write_int(os.getpid(), file)
    file.flush()
    threading.Thread(target=end_with, args=(connection.fileno(),), daemon=True).start()
    send_rows(runner)
    runner.main(file, file)


def end_with(connection: int) -> None:
    """End this process when Spark closes the connection, also in the middle of a call, as Spark ends a process of its
    own with a signal."""
    events = select.poll()
    events.register(connection, _HANGUP)
    events.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
