"""What a machine may lack is named by a condition, with something to do about it."""

from __future__ import annotations

import fcntl
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ds_dagster import jars, local
from ds_dagster.errors import DsError
from ds_dagster.local import kafka, kinesis, postgres, server, servers
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.local.ports import assign_ports
from ds_dagster.local.processes import ServerCommand
from ds_dagster.local.server import Home, ServerKind


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")


def refused(action: Callable[[], object]) -> DsError:
    with pytest.raises(DsError) as caught:
        action()
    assert caught.value.definition.kind == "internal" or caught.value.hint
    return caught.value


def silent(_line: str) -> None:
    return


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("action", "condition"),
    [
        (jars.pyspark_home, "PYSPARK_MISSING"),
        (kinesis.find_node, "NODE_MISSING"),
        (postgres.find_binaries, "POSTGRES_BINARIES_MISSING"),
    ],
)
def test_what_is_not_installed_is_named(action: Callable[[], object], condition: str) -> None:
    assert refused(action).condition == condition


@pytest.mark.parametrize(
    ("module", "kind"), [("confluent_kafka", kafka.SERVER), ("psycopg2", postgres.SERVER)], ids=["kafka", "postgres"]
)
def test_a_missing_driver_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, kind: ServerKind
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    problem = refused(lambda: kind.ailment(Home(tmp_path, kind.name, {kind.name: 1})))
    assert problem.condition == "LOCAL_PACKAGE_MISSING"


def test_missing_sources_are_our_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_PACKAGE", tmp_path / "ds_dagster")
    assert refused(jars.operator_sources).condition == "OPERATOR_SOURCES_MISSING"


def test_a_failing_npm_shows_its_output(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'registry is closed' >&2\nexit 1\n")
    npm.chmod(0o755)
    problem = refused(lambda: kinesis.install(kinesis.NodeRuntime("node", (str(npm),), "20.0.0"), silent))
    assert problem.condition == "KINESIS_SERVER_INSTALL_FAILED"
    assert "registry is closed" in problem.detail
    assert not kinesis.installed_folder().exists()


def test_a_lasting_up_of_somebody_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "BUSY_SECONDS", 0.0)
    state = tmp_path / ".ds"
    (state / "local").mkdir(parents=True)
    with (state / "local" / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert refused(lambda: local.up(state)).condition == "LOCAL_STATE_BUSY"
        assert refused(lambda: local.down(state)).condition == "LOCAL_STATE_BUSY"


def test_a_server_that_cannot_be_stopped_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, "kafka", {"kafka": 1})
    monkeypatch.setattr(server, "running", lambda home: server.PidRecord(4711, "token"))
    monkeypatch.setattr(server, "end", lambda pid, token, steps: False)
    problem = refused(lambda: server.stop_server(kafka.SERVER, home))
    assert problem.condition == "LOCAL_SERVER_NOT_STOPPED"
    assert "4711" in str(problem)


def test_a_missing_password_file_is_named(tmp_path: Path) -> None:
    assert refused(lambda: local.postgres_password(tmp_path)).condition == "LOCAL_STATE_UNREADABLE"


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    def prepare(home: Home, progress: jars.Progress) -> ServerCommand:
        return ServerCommand((str(tmp_path / "no such program"),), tmp_path)

    kind = ServerKind("ghost", ("ghost",), prepare, lambda home: None)
    problem = refused(
        lambda: server.start_server(kind, Home(tmp_path, "ghost", assign_ports(tmp_path, ["ghost"])), silent)
    )
    assert problem.condition == "LOCAL_SERVER_FAILED"
    assert "no such program" in str(problem)


def test_a_folder_without_servers_has_no_addresses(tmp_path: Path) -> None:
    assert local.addresses(tmp_path) == LocalAddresses()
    assert LocalAddresses().json() == {}
    assert {status.state for status in local.status(tmp_path)} == {"stopped"}
