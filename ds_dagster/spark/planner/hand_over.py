"""The program that Spark starts in place of a planning process: sends its environment to the server, and ends.

``python -I -S hand_over.py SOCKET PYTHON -m MODULE ARGUMENT…``; without an answer from the server it becomes ``PYTHON
-m MODULE ARGUMENT…``. In place of a daemon of workers it also sends its standard streams, and ends with the daemon, as
Spark watches this process. It imports as little as possible, since it runs once for each start of a source.
"""

from __future__ import annotations

import os
import socket
import sys

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""Spark's module that answers the JVM's requests to one source."""
WORKERS = "pyspark.daemon"
"""Spark's module that forks its workers; its argument is the workers' module."""
ANSWER_SECONDS = 8.0
"""Spark gives a process 10 seconds to connect; what is left is for a process without the server."""
ACCEPTED = b"+"
LOAD = "ds.load"
"""Name in a request in place of an environment: a module to import."""
COMPANION = "ds.companion"
"""Name in a request in place of an environment: a module and a key, see ``companions``."""
DAEMON = "ds.daemon"
"""Name in a request beside an environment: the module of the workers."""
SOCKET_FILE = "socket"
STREAMS = (0, 1, 2)


def hand_over(path: str, environment: dict[bytes, bytes], seconds: float = ANSWER_SECONDS) -> bool:
    """Whether the server has forked a process with this environment, or imported a module, within some seconds."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            return ask(server, path, environment, seconds)
    except OSError:
        return False


def ask(
    server: socket.socket,
    path: str,
    environment: dict[bytes, bytes],
    seconds: float | None,
    streams: tuple[int, ...] = (),
) -> bool:
    """The same over this socket, which stays open; the server gets the streams, too. Raises OSError."""
    server.settimeout(seconds)
    server.connect(path)
    if streams:
        socket.send_fds(server, [b"\0"], streams)
    server.sendall(b"\0".join(b"%b=%b" % item for item in environment.items()))
    server.shutdown(socket.SHUT_WR)
    return server.recv(1) == ACCEPTED


def accompany_workers(path: str, module: str) -> bool:
    """Let the server fork a daemon with the streams of this process; returns behind its end, False if there is none.
    There is no time limit: two daemons would share the streams."""
    environment = {DAEMON.encode(): module.encode(), **os.environb}
    is_forked = False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            is_forked = ask(server, path, environment, None, STREAMS)
            if is_forked:
                server.recv(1)
    except OSError:
        pass
    return is_forked


def main(path: str, module: str, *arguments: str) -> bool:
    """Whether the server has done what ``python -m MODULE ARGUMENT…`` does."""
    if module == WORKERS:
        return accompany_workers(path, *arguments)
    return hand_over(path, dict(os.environb))


if __name__ == "__main__":
    if not main(sys.argv[1], *sys.argv[4:]):
        os.execv(sys.argv[2], sys.argv[2:])
