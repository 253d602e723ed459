"""``dagster dev`` on a copy of the example project, driven through GraphQL as the UI drives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.feeding import ROOT, WAIT, House, until

MARKED_SECRET = "marked-sasl-secret-51c8"
DEFINITIONS = '''
"""The example with a user's own resource and asset beside it."""

from pathlib import Path

import dagster as dg

from ds_dagster.orchestration import DsProject, KafkaStoreResource, build_ds_definitions


@dg.asset(deps=[dg.AssetKey(["clickstream_db", "public", "clicks"])], group_name="own")
def click_sample(prod_kafka: KafkaStoreResource) -> dg.MaterializeResult:
    """A batch asset of the user's own, with the client of a declared store."""
    metadata = prod_kafka.admin_client().list_topics("clicks", 30)
    return dg.MaterializeResult(metadata={"partitions": len(metadata.topics["clicks"].partitions)})


defs = build_ds_definitions(
    DsProject(Path(__file__).parent),
    resources={"msk": KafkaStoreResource(
        username="reader", password=dg.EnvVar("MARKED_SASL_SECRET"), hash_function="SHA512"
    )},
)
(health,) = defs.sensors
health._min_interval = 5  # a third of the default, for which tests would wait
defs = dg.Definitions.merge(defs, dg.Definitions(assets=[click_sample]))
'''
IN_STEP = """
USE DATABASE clickstream_db;

-- The same counts, loaded as a whole in the step's own Spark session.
-- @group warehouse
CREATE TABLE page_visits WITH ('store'='warehouse', 'refresh.mode'='full', 'execution'='step') AS
  SELECT url, device_id, click_count FROM url_device_click_count;
"""
WORKSPACE = """{ workspaceOrError { __typename ... on PythonError { message } ... on Workspace { locationEntries { name
  loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
LAUNCH = """mutation L($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) { __typename
  ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
RUN = """query R($id: ID!) { runOrError(runId: $id) { ... on Run { runId status stepStats { stepKey status }
  eventConnection(afterCursor: null) { events { __typename ... on ExecutionStepFailureEvent { error { message }
  failureMetadata { description metadataEntries { label } } } ... on MessageEvent { message } } } } } }"""
RUN_STATUS = """query T($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"""
ASSET = """query A($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  assetMaterializations(limit: 20) { runId timestamp tags { key value } metadataEntries { label
    ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue } ... on TextMetadataEntry { text } } }
  assetObservations(limit: 60) { runId metadataEntries { label ... on TextMetadataEntry { text } } } } } }"""
CHECKS = """query C($keys: [AssetKeyInput!]!) { assetNodes(assetKeys: $keys) { assetKey { path }
  assetChecksOrError { ... on AssetChecks { checks { name executionForLatestMaterialization { status
    evaluation { severity success description } } } } } } }"""
STATES = """query F($keys: [AssetKeyInput!]!) { assetNodes(assetKeys: $keys) { assetKey { path } staleStatus
  freshnessStatusInfo { freshnessStatus } } }"""
"""Questions that tests ask again and again name what they need alone, of all assets at once: all checks of ten assets
take 0.2 seconds of processor time then, and took 1.7 asset by asset with everything about each."""
SENSOR = """query S($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) { ... on Sensor {
  sensorState { status ticks(limit: 20) { status skipReason timestamp runIds error { message } } } } } }"""
RELOAD = """mutation M($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename
  ... on WorkspaceLocationEntry { loadStatus } } }"""
NODES = (
    "{ assetNodes { assetKey { path } isMaterializable isObservable groupName kinds opNames dependencyKeys { path } } }"
)
REPOSITORY = "__repository__"
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
READY_SECONDS = max(WAIT, 300.0)


def path_of(name: str) -> list[str]:
    return [name] if name == "ds_engine" else ["clickstream_db", "public", name]


class DagsterDev:
    """One ``dagster dev`` process group and its GraphQL."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "dagster_dev.log"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(self.port)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=root,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        self.location = ""

    def wait_ready(self) -> None:
        until(self._is_ready, "dagster dev has loaded the project", READY_SECONDS, 0.5)

    def kill(self) -> None:
        """kill -9 of the whole group: dagster dev, web server, daemon, code server, runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> None:
        """Ctrl-C, then ever less gently."""
        for number, seconds in ((signal.SIGINT, 20.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            end = time.monotonic() + seconds
            while time.monotonic() < end and self._lives():
                time.sleep(0.1)
        self.process.wait(10)

    def ask(self, query: str, **variables: Any) -> Any:
        """One GraphQL call; its data."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            found = json.load(answer)
        assert not found.get("errors"), found["errors"]
        return found["data"]

    # -- what the UI does --------------------------------------------------------------------------------------------

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Asset nodes by last part of their key."""
        return {node["assetKey"]["path"][-1]: node for node in self.ask(NODES)["assetNodes"]}

    def launch(self, paths: Sequence[Sequence[str]], config: Mapping[str, Any] | None = None) -> str:
        """Start one run; returns its id."""
        selector = {
            "repositoryLocationName": self.location,
            "repositoryName": REPOSITORY,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": list(path)} for path in paths],
        }
        params = {"selector": selector, "mode": "default", "runConfigData": config or {}}
        answer = self.ask(LAUNCH, params=params)["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def wait_run(self, run: str) -> dict[str, Any]:
        """The run when it is over."""

        def ended() -> bool:
            return self.ask(RUN_STATUS, id=run)["runOrError"]["status"] in ENDED

        until(ended, f"run {run} is over", READY_SECONDS, 0.5)
        return dict(self.ask(RUN, id=run)["runOrError"])

    def materialize(self, *names: str, **op_config: Mapping[str, Any]) -> dict[str, Any]:
        """Run the assets of these relations to the end of the run."""
        config = {"ops": {op: {"config": values} for op, values in op_config.items()}} if op_config else None
        return self.wait_run(self.launch([path_of(name) for name in names], config))

    def asset(self, name: str) -> dict[str, Any]:
        return dict(self.ask(ASSET, key={"path": path_of(name)})["assetNodeOrError"])

    def of_assets(self, query: str, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """Answers of one of the queries over several assets, by relation."""
        found = self.ask(query, keys=[{"path": path_of(name)} for name in names])["assetNodes"]
        return {node["assetKey"]["path"][-1]: node for node in found}

    def checks(self, name: str) -> dict[str, bool | None]:
        """Check → success for the latest materialization, None when it has none."""
        found = self.of_assets(CHECKS, [name])[name]["assetChecksOrError"]["checks"]
        outcome = {check["name"]: check["executionForLatestMaterialization"] for check in found}
        return {
            name: None if ran is None or ran["evaluation"] is None else bool(ran["evaluation"]["success"])
            for name, ran in outcome.items()
        }

    def observed(self, name: str) -> list[dict[str, str]]:
        """Texts of the observations, newest first."""
        return [
            {
                entry["label"].removeprefix("ds_dagster/"): entry["text"]
                for entry in event["metadataEntries"]
                if "text" in entry
            }
            for event in self.asset(name)["assetObservations"]
        ]

    def incidents(self, name: str) -> list[tuple[str, str]]:
        """(from, to) of the transitions on the asset, newest first."""
        return [(found["from"], found["to"]) for found in self.observed(name) if "from" in found]

    def verdicts(self, name: str) -> dict[str, tuple[str, str]]:
        """Check → (``passed``, or the severity of its failure; its description), of every check that has a result."""
        return _verdicts(self.of_assets(CHECKS, [name])[name])

    def outcomes(self, name: str) -> dict[str, str]:
        """Check → ``passed`` or the severity of its failure."""
        return {check: outcome for check, (outcome, _) in self.verdicts(name).items()}

    def all_pass(self, names: Collection[str]) -> bool:
        """Whether every check of these relations has a result and passes."""
        nodes = self.of_assets(CHECKS, names)
        assert set(nodes) == set(names), nodes
        return {outcome for node in nodes.values() for outcome, _ in _verdicts(node).values()} == {"passed"}

    def freshness(self, name: str) -> str:
        """Dagster's own state of the freshness policy."""
        return str(self.of_assets(STATES, [name])[name]["freshnessStatusInfo"]["freshnessStatus"])

    def stale(self, names: Collection[str]) -> dict[str, str]:
        """Relation → whether Dagster takes it for up to date with its sources."""
        return {name: str(node["staleStatus"]) for name, node in self.of_assets(STATES, names).items()}

    def metadata(self, name: str, run: str | None = None) -> dict[str, Any]:
        """Metadata of the latest materialization, or of the one a run made."""
        made = self.asset(name)["assetMaterializations"]
        chosen = next(event for event in made if run is None or event["runId"] == run)
        return {
            entry["label"]: next((value for key, value in entry.items() if key != "label"), None)
            for entry in chosen["metadataEntries"]
        }

    def ticks(self) -> list[dict[str, Any]]:
        """Ticks of the health sensor, newest first."""
        selector = {"repositoryLocationName": self.location, "repositoryName": REPOSITORY, "sensorName": "ds_health"}
        return list(self.ask(SENSOR, selector=selector)["sensorOrError"]["sensorState"]["ticks"])

    def ended_ticks(self) -> frozenset[float]:
        """Start times of the ticks that are over: what one that still runs says belongs to what comes now."""
        return frozenset(tick["timestamp"] for tick in self.ticks() if tick["status"] != "STARTED")

    def until_tick(self, says: Callable[[str], bool], what: str, old: frozenset[float] | None = None) -> str:
        """Wait for a tick whose reason says something, other than the ``old`` ones (those that are over by now).

        Whoever provokes a tick's answer asks for ``ended_ticks`` first: a tick may be on its way at that moment.
        """
        past = self.ended_ticks() if old is None else old

        def told() -> str | None:
            new = (tick["skipReason"] or "" for tick in self.ticks() if tick["timestamp"] not in past)
            return next((reason for reason in new if says(reason)), None)

        return str(until(told, what, READY_SECONDS, 1.0))

    def reload(self) -> None:
        """*Reload definitions*."""
        answer = self.ask(RELOAD, name=self.location)["reloadRepositoryLocation"]
        assert answer.get("loadStatus") == "LOADED", answer

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]
        try:
            found = self.ask(WORKSPACE)["workspaceOrError"]
        except (OSError, urllib.error.URLError, ValueError):
            return False
        entries = found.get("locationEntries", [])
        if not entries or entries[0]["loadStatus"] != "LOADED" or not entries[0]["locationOrLoadError"]:
            return False
        problem = entries[0]["locationOrLoadError"]
        assert problem["__typename"] == "RepositoryLocation", problem
        self.location = entries[0]["name"]
        return True

    def _lives(self) -> bool:
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True


def _verdicts(node: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    ran = {check["name"]: check["executionForLatestMaterialization"] for check in node["assetChecksOrError"]["checks"]}
    told = {check: one["evaluation"] for check, one in ran.items() if one is not None and one["evaluation"]}
    return {
        check: ("passed" if one["success"] else one["severity"], one["description"] or "")
        for check, one in told.items()
    }


class DagsterHouse(House):
    """The example project with Dagster's files, servers and ``dagster dev``; with ``own_files`` a user's own asset,
    resource and table beside it."""

    def __init__(self, root: Path, *, own_files: bool = True) -> None:
        super().__init__(root, {"in_step.sql": IN_STEP} if own_files else {})
        with (root / ".env").open("a") as file:
            file.write(f"MARKED_SASL_SECRET={MARKED_SECRET}\n")
        for name in ("workspace.yaml", "dagster.yaml", "definitions.py"):
            shutil.copyfile(ROOT / name, root / name)
        if own_files:
            (root / "definitions.py").write_text(DEFINITIONS)
            self.rewrite("CREATE STREAM desktop_clicks", "-- @freshness 1h\nCREATE STREAM desktop_clicks")
        self.dev = DagsterDev(root)

    def rewrite(self, old: str, new: str) -> None:
        """Change a text in the file of the clickstream."""
        file = self.root / "sql" / "clickstream.sql"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        file.write_text(text.replace(old, new), encoding="utf-8")

    def restart_dev(self) -> None:
        """A new ``dagster dev`` in the same folder."""
        self.dev = DagsterDev(self.root)
        self.dev.wait_ready()

    def close(self) -> None:
        """End everything, by process id."""
        try:
            self.dev.stop()
        finally:
            super().close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
