"""Stable ports: chosen once per project, remembered, never shared with another project's servers.

A project remembers its ports in its state folder. A register in the user's cache says which state folder holds which
port, so that two projects differ even while one of them is down, and a copied project gets ports of its own. The
range is below the ephemeral ports of Linux and macOS, so no outgoing connection can have taken one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import cache_folder, file_lock

FIRST, LAST = 20000, 29999
HOST = "127.0.0.1"


def ports_file(state: Path) -> Path:
    """File in which a project remembers its ports."""
    return state / "local" / "ports.json"


def remembered_ports(state: Path) -> dict[str, int]:
    """The ports of a project by name; empty when none were chosen yet.

    Raises:
        UserError: LOCAL_STATE_UNREADABLE.
    """
    return {name: port for name, port in read_json(ports_file(state)).items() if isinstance(port, int)}


def assign_ports(state: Path, names: Sequence[str]) -> dict[str, int]:
    """The project's ports for ``names``; for names without one, a free port is chosen and remembered.

    Raises:
        UserError: LOCAL_STATE_UNREADABLE.
        ExternalError: LOCAL_PORTS_EXHAUSTED.
    """
    register = cache_folder() / "ports.json"
    with file_lock(register.with_suffix(".lock")):
        claims = {int(port): owner for port, owner in read_json(register).items() if Path(str(owner)).is_dir()}
        owner = str(state)
        ports = {n: p for n, p in remembered_ports(state).items() if claims.get(p, owner) == owner}
        for name in names:
            ports.setdefault(name, _choose(owner, name, claims.keys() | set(ports.values())))
        claims |= dict.fromkeys(ports.values(), owner)
        write_json(ports_file(state), ports)
        write_json(register, {str(port): claims[port] for port in sorted(claims)})
    return {name: ports[name] for name in names}


def is_listening(port: int) -> bool:
    """Whether anything accepts connections on the port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def is_free(port: int) -> bool:
    """Whether a server could bind the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as problem:
            if problem.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def _choose(owner: str, name: str, taken: set[int]) -> int:
    span = LAST - FIRST + 1
    start = int.from_bytes(hashlib.sha256(f"{owner}:{name}".encode()).digest()[:4], "big")
    for step in range(span):
        port = FIRST + (start + step) % span
        if port not in taken and is_free(port):
            return port
    raise error("LOCAL_PORTS_EXHAUSTED", name=name, first=FIRST, last=LAST)


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in a file; empty if there is no file.

    Raises:
        UserError: LOCAL_STATE_UNREADABLE.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise error("LOCAL_STATE_UNREADABLE", file=str(path), reason=str(problem)) from problem
    if not isinstance(table, dict):
        raise error("LOCAL_STATE_UNREADABLE", file=str(path), reason="not a JSON object")
    return table


def write_json(path: Path, table: Mapping[str, object]) -> None:
    """Write a JSON object in one step: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.new")
    staged.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    staged.replace(path)
