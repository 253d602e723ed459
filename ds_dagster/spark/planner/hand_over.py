"""The program that Spark starts in place of a planning process: sends its environment to the server, and ends.

``python -I -S hand_over.py SOCKET PYTHON ARGUMENT…``; without an answer from the server it becomes
``PYTHON ARGUMENT…``. It imports as little as possible, since it runs once for each start of a source.
"""

from __future__ import annotations

import os
import socket
import sys

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""Spark's module that answers the JVM's requests to one source."""
ANSWER_SECONDS = 8.0
"""Spark gives a process 10 seconds to connect; what is left is for a process without the server."""
ACCEPTED = b"+"
LOAD = "ds.load"
"""Name in a request in place of an environment: a module to import."""
COMPANION = "ds.companion"
"""Name in a request in place of an environment: a module and a key, see ``companions``."""
SOCKET_FILE = "socket"


def hand_over(path: str, environment: dict[bytes, bytes], seconds: float = ANSWER_SECONDS) -> bool:
    """Whether the server has forked a process with this environment, or imported a module, within some seconds."""
    request = b"\0".join(b"%b=%b" % item for item in environment.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(seconds)
            server.connect(path)
            server.sendall(request)
            server.shutdown(socket.SHUT_WR)
            return server.recv(1) == ACCEPTED
    except OSError:
        return False


if __name__ == "__main__":
    if not hand_over(sys.argv[1], dict(os.environb)):
        os.execv(sys.argv[2], sys.argv[2:])
