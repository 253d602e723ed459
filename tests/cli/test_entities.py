"""Names of entities that several stores have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.cli.main import run

SQL = """
CREATE STORE one WITH ('type'=KAFKA, 'uris'='one:9092');
CREATE STORE two WITH ('type'=KAFKA, 'uris'='two:9092');
CREATE STREAM a (x BIGINT) WITH ('store'='one', 'topic'='shared', 'value.format'='json');
CREATE STREAM b (x BIGINT) WITH ('store'='two', 'topic'='shared', 'value.format'='json');
"""


def test_a_topic_of_two_stores_is_asked_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(SQL, encoding="utf-8")
    (tmp_path / "ds.toml").write_text("", encoding="utf-8")
    monkeypatch.setenv("DS_PROFILE", "none")
    assert run(["print", "shared", "--json", "--project", str(tmp_path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["condition"] == "ENTITY_AMBIGUOUS"
    assert "one" in found["message"] + found["hint"]
    assert "two" in found["message"] + found["hint"]
