"""Loading is cheap and harmless: no Spark, no driver, no socket, no process, whatever a user imports first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.trees import ROOT, modules

HEAVY = (
    "pyspark",
    "py4j",
    "boto3",
    "botocore",
    "psycopg2",
    "confluent_kafka",
    "adbc_driver_manager",
    "dagster_pyspark",
)

WATCH = """
import json, sys
opened = []
def watch(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.fork"):
        opened.append(event + " " + repr(arguments[1 if event.endswith("Popen") else -1])[:80])
if {with_dagster}:
    import dagster  # asks the machine about its word size by a program, which is not our doing
sys.addaudithook(watch)
{code}
print(json.dumps({{"loaded": sorted({{name.split(".")[0] for name in sys.modules}}), "opened": opened}}))
"""

DEFINITIONS = """
import definitions
graph = definitions.defs.resolve_asset_graph()
assert len(graph.get_all_asset_keys()) > 10, graph.get_all_asset_keys()
list(definitions.defs.resolve_all_asset_specs())
"""
PROJECT = """
from ds_dagster.project.load import load_project
project = load_project(__import__("pathlib").Path("."))
assert len(project.queries) > 5
"""


def look(code: str, tmp_path: Path, folder: Path = ROOT) -> dict[str, list[str]]:
    """What a fresh interpreter loaded and opened while it ran the code."""
    environment = {**os.environ, "DS_STATE": str(tmp_path / "state"), "DAGSTER_HOME": "", "PYTHONPATH": str(ROOT)}
    environment.pop("DS_PROFILE", None)
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(code=code, with_dagster="definitions" in code)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("code", "also_absent"),
    [
        ("import ds_dagster", ("dagster", "sqlglot", "sqlalchemy", "click", "pandas", "pyarrow")),
        (PROJECT, ("dagster", "sqlalchemy", "pandas", "pyarrow")),
        ("import ds_dagster.cli.main", ("dagster", "sqlglot", "sqlalchemy", "pandas", "pyarrow")),
        ("import ds_dagster.runtime.control, ds_dagster.runtime.engine", ("dagster", "pandas")),
        ("import ds_dagster.testing.plugin", ("dagster",)),
        (DEFINITIONS, ("pandas", "pyarrow", "numpy")),
    ],
    ids=["package", "project", "command line", "runtime", "pytest plugin", "definitions"],
)
def test_loading_starts_nothing(code: str, also_absent: tuple[str, ...], tmp_path: Path) -> None:
    found = look(code, tmp_path)
    assert not set(found["loaded"]) & {*HEAVY, *also_absent}
    assert found["opened"] == []
    assert not (tmp_path / "state" / "journal.db").exists(), "loading writes no journal"


def test_the_watch_sees_what_it_forbids(tmp_path: Path) -> None:
    found = look("import socket; socket.socket().bind(('127.0.0.1', 0)); import psycopg2", tmp_path, tmp_path)
    assert "psycopg2" in found["loaded"]
    assert [line.split()[0] for line in found["opened"]] == ["socket.bind"]


def test_every_store_says_what_it_can_without_its_driver(tmp_path: Path) -> None:
    code = "from ds_dagster.stores.registry import KINDS; assert all(kind.capabilities for kind in KINDS.values())"
    assert not set(look(code, tmp_path)["loaded"]) & set(HEAVY)


def test_every_module_outside_the_workers_imports_without_spark() -> None:
    """By the syntax trees: a module that imports pyspark at load stands in the packages allowed to know it."""
    knowing = {
        module.path
        for module in modules()
        if any(found.top in ("pyspark", "py4j") and found.when == "load" for found in module.imports())
    }
    assert all(path.startswith(("spark/", "engine/", "testing/")) for path in knowing), knowing
