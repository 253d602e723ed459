"""What the demo says when it cannot begin."""

from __future__ import annotations

from pathlib import Path

import pytest

import ds_dagster
from ds_dagster.demo import dagster_dev, example
from ds_dagster.demo.dagster_dev import DagsterDev
from ds_dagster.errors import DsError


def test_without_its_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ds_dagster, "__file__", str(tmp_path / "ds_dagster" / "__init__.py"))
    with pytest.raises(DsError) as refused:
        example.example_source()
    assert refused.value.condition == "DEMO_EXAMPLE_MISSING"


def test_without_the_webserver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagster_dev, "find_spec", lambda name: None)
    with pytest.raises(DsError) as refused:
        DagsterDev.start(tmp_path, tmp_path / "log", None)
    assert refused.value.condition == "DEMO_PACKAGE_MISSING"
    assert "pip install" in refused.value.hint


def test_the_example_of_a_checkout_is_the_checkout() -> None:
    root = example.example_source()
    assert (root / "sql" / "clickstream.sql").is_file()
    assert example.find_example(root / "sql") == root
