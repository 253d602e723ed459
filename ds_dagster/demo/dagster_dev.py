"""``dagster dev`` as a child of the demo, and the few GraphQL calls that materialize assets as a person would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ds_dagster.errors import error

HOST = "127.0.0.1"
FIRST_PORT = 3000
READY_SECONDS = 180.0
CALL_SECONDS = 30.0
POLL_SECONDS = 0.5
STOPS: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 20.0),
    (signal.SIGTERM, 10.0),
    (signal.SIGKILL, 5.0),
)
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})

WORKSPACE = """{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus
  locationOrLoadError { __typename ... on PythonError { message }
    ... on RepositoryLocation { repositories { name } } } } } } }"""
ASSETS = "{ assetNodes { assetKey { path } isMaterializable } }"
LAUNCH = """mutation Launch($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) { __typename
  ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
RUN = "query Run($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"

AssetPath = tuple[str, ...]


@dataclass(slots=True)
class DagsterDev:
    """A running ``dagster dev``, in its own process group."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    location: str = ""
    repository: str = ""

    @classmethod
    def start(cls, root: Path, log: Path, port: int | None = None) -> DagsterDev:
        """Start ``dagster dev`` in a project's folder.

        Args:
            root: folder with ``workspace.yaml``.
            log: file for its output.
            port: of the UI; the first free one from 3000 when None.

        Raises:
            UserError: DEMO_PACKAGE_MISSING.
        """
        if find_spec("dagster_webserver") is None:
            raise error("DEMO_PACKAGE_MISSING", package="dagster-webserver")
        port = port or free_port()
        environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", HOST, "-p", str(port)]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=root,
                env=environment | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, f"http://{HOST}:{port}", log)

    def wait_ready(self) -> None:
        """Wait until the project is loaded.

        Raises:
            ExternalError: DEMO_FAILED with the error of the code location.
        """
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self._failed("starting dagster dev", f"it ended with code {self.process.returncode}")
            if self._is_loaded():
                return
            time.sleep(POLL_SECONDS)
        raise self._failed("starting dagster dev", f"not ready in {int(READY_SECONDS)} s")

    def _is_loaded(self) -> bool:
        try:
            entries = self.call(WORKSPACE)["workspaceOrError"].get("locationEntries", [])
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return False
        if not entries or entries[0]["loadStatus"] != "LOADED" or entries[0]["locationOrLoadError"] is None:
            return False
        location = entries[0]["locationOrLoadError"]
        if location["__typename"] == "PythonError":
            raise self._failed("loading the project in Dagster", location["message"])
        self.location, self.repository = entries[0]["name"], location["repositories"][0]["name"]
        return True

    def executable_assets(self) -> list[AssetPath]:
        """Keys of the assets that can be materialized."""
        return [tuple(node["assetKey"]["path"]) for node in self.call(ASSETS)["assetNodes"] if node["isMaterializable"]]

    def materialize(self, assets: Sequence[AssetPath]) -> str:
        """Start one run over these assets; returns its id.

        Raises:
            ExternalError: DEMO_FAILED.
        """
        selector = {
            "repositoryLocationName": self.location,
            "repositoryName": self.repository,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": list(path)} for path in assets],
        }
        params = {"selector": selector, "mode": "default", "runConfigData": {}}
        answer = self.call(LAUNCH, {"params": params})["launchPipelineExecution"]
        if answer["__typename"] != "LaunchRunSuccess":
            raise self._failed("materializing", json.dumps(answer))
        return str(answer["run"]["runId"])

    def wait_run(self, run: str, seconds: float, on_poll: Callable[[], None]) -> str:
        """The run's final status; ``TIMEOUT`` after ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status = str(self.call(RUN, {"id": run})["runOrError"].get("status", ""))
            if status in ENDED:
                return status
            on_poll()
            time.sleep(POLL_SECONDS)
        return "TIMEOUT"

    def call(self, query: str, variables: Mapping[str, Any] | None = None) -> Any:
        """Send one GraphQL call and return its data.

        Raises:
            OSError: Dagster does not answer (yet).
            ExternalError: DEMO_FAILED if Dagster refuses the call.
        """
        body = json.dumps({"query": query, "variables": variables or {}}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/graphql", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
            reply = json.load(answer)
        if reply.get("errors"):
            raise self._failed("asking Dagster", json.dumps(reply["errors"]))
        return reply["data"]

    def stop(self) -> None:
        """End ``dagster dev`` and all processes it started: by a gentle signal first, then by force."""
        for number, seconds in STOPS:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                self.process.poll()
                if not self._lives():
                    return
                time.sleep(0.05)

    def _lives(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _failed(self, step: str, detail: str) -> Exception:
        return error("DEMO_FAILED", step=step, logs=str(self.log), detail=detail)


def free_port() -> int:
    """The first free port from 3000, else any."""
    for port in range(FIRST_PORT, FIRST_PORT + 20):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
