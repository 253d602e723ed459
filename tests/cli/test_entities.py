"""Names of entities that several stores have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.cli.converging import chosen_queries
from ds_dagster.cli.main import run
from ds_dagster.errors import DsError
from ds_dagster.project.load import compile_texts
from ds_dagster.questions.relations import resolve_typed
from ds_dagster.settings import Settings

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


def test_a_name_is_taken_as_it_is_typed_before_it_is_folded(tmp_path: Path) -> None:
    """Two queries whose names differ by case: each is reached, and neither is taken for the other."""
    made = Settings(root=tmp_path, sql=tmp_path, state=tmp_path / ".ds", store="one")
    copies = 'CREATE STREAM "Copy" AS SELECT x FROM a; CREATE STREAM copy AS SELECT x FROM a;'
    project = compile_texts([("t.sql", f"{SQL} {copies} CREATE STREAM other AS SELECT x FROM a;")], made)
    assert not project.errors
    chosen = {typed: chosen_queries(project, [typed]) for typed in ("Copy", "copy", "COPY", "Other")}
    assert chosen == {"Copy": ["Copy"], "copy": ["copy"], "COPY": ["copy"], "Other": ["other"]}
    assert {typed: resolve_typed(project, typed).name.name for typed in chosen} == {
        "Copy": "Copy", "copy": "copy", "COPY": "copy", "Other": "other",
    }  # fmt: skip
    with pytest.raises(DsError, match="UNKNOWN_RELATION"):
        resolve_typed(project, "Otter")
