"""Ports stay the same, differ between projects, and are known not to be free."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from ds_dagster.local import ports

NAMES = ("kafka", "kafka_controller", "kinesis", "postgres")


@pytest.fixture(autouse=True)
def own_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))


def project(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name / ".ds"
    folder.mkdir(parents=True)
    return folder


def test_ports_are_remembered(tmp_path: Path) -> None:
    state = project(tmp_path, "one")
    first = ports.assign_ports(state, NAMES)
    assert len(set(first.values())) == len(NAMES)
    assert all(ports.FIRST <= port <= ports.LAST for port in first.values())
    assert ports.assign_ports(state, NAMES) == first
    assert ports.assign_ports(state, NAMES[:1]) == {"kafka": first["kafka"]}


def test_projects_that_are_down_keep_their_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "FIRST", 21000)
    monkeypatch.setattr(ports, "LAST", 21019)
    used = [port for i in range(4) for port in ports.assign_ports(project(tmp_path, f"p{i}"), NAMES).values()]
    assert len(set(used)) == len(used)


def test_a_copied_project_gets_ports_of_its_own(tmp_path: Path) -> None:
    state = project(tmp_path, "one")
    first = ports.assign_ports(state, NAMES)
    copy = tmp_path / "two" / ".ds"
    shutil.copytree(state, copy)
    assert not set(ports.assign_ports(copy, NAMES).values()) & set(first.values())
    assert ports.assign_ports(state, NAMES) == first


def test_a_removed_project_frees_its_ports(tmp_path: Path) -> None:
    state = project(tmp_path, "one")
    ports.assign_ports(state, NAMES)
    shutil.rmtree(state.parent)
    ports.assign_ports(project(tmp_path, "two"), NAMES)
    owners = set(json.loads((tmp_path / "cache" / "ports.json").read_text()).values())
    assert owners == {str(tmp_path / "two" / ".ds")}


def test_a_port_in_use_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = project(tmp_path, "one")
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ports.is_listening(port)
        assert not ports.is_free(port)
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "LAST", port)
        with pytest.raises(Exception, match="no free port") as caught:
            ports.assign_ports(state, ("kafka",))
        assert caught.value.condition == "LOCAL_PORTS_EXHAUSTED"  # type: ignore[attr-defined]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    state = project(tmp_path, "one")
    ports.ports_file(state).parent.mkdir()
    ports.ports_file(state).write_text("{")
    with pytest.raises(UserError) as caught:
        ports.assign_ports(state, NAMES)
    assert caught.value.condition == "LOCAL_STATE_UNREADABLE"
    assert str(ports.ports_file(state)) in str(caught.value)
