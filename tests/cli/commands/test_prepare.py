"""`ds doctor --prepare`: fetches and builds before it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.cli.main import run
from ds_dagster.errors import error
from ds_dagster.local import doctor, preparation


def test_everything_a_driver_needs_is_made_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(preparation, "resolve", lambda name, progress: steps.append(name))
    monkeypatch.setattr(preparation, "operator_jar", lambda progress: steps.append("operators"))
    monkeypatch.setattr(preparation, "record", lambda progress: steps.append("classes"))
    preparation.prepare(steps.append, servers=False)
    assert steps == ["spark-kafka", "s3a", "operators", "classes"]


def test_the_doctor_prepares_and_then_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    order: list[str] = []
    monkeypatch.setattr(preparation, "prepare", lambda progress, servers: order.append("prepare"))
    monkeypatch.setattr(doctor, "examine", lambda state: order.append("examine") or ())
    assert run(["doctor", "--prepare"]) == 0
    assert order == ["prepare", "examine"]
    order.clear()
    assert run(["doctor"]) == 0
    assert order == ["examine"]
    capsys.readouterr()


def test_what_cannot_be_prepared_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def fails(progress: object, servers: bool) -> None:
        raise error("JAVA_MISSING", searched="nowhere")

    monkeypatch.setattr(preparation, "prepare", fails)
    assert run(["doctor", "--prepare"]) == 1
    assert "JAVA_MISSING" in capsys.readouterr().err
