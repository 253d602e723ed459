"""``ds test`` where there is nothing to test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.cli.main import run


def test_a_project_without_cases_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ds.toml").write_text("", encoding="utf-8")
    assert run(["test", "--json", "--project", str(tmp_path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["condition"] == "CASE_NONE_FOUND"
    assert found["hint"]


def test_a_filter_that_no_case_matches_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ds.toml").write_text("", encoding="utf-8")
    (tmp_path / "one.case.yaml").write_text("title: one\nsql: SELECT 1\n", encoding="utf-8")
    assert run(["test", "-k", "two", "--project", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "[CASE_NONE_MATCHES]" in said and "has two in its path or title" in said
