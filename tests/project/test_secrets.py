"""Secrets and updates through slices, the compiled project's cache and the host of jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.errors import DsError, ExternalError, error
from ds_dagster.project import cache as project_cache
from ds_dagster.project.load import LoadedProject, compile_slice, load_project, secret_reader, slice_of

SQL = """
CREATE SECRET pw WITH ('type' = environment, 'variable' = 'PG_PW');
CREATE SECRET lit WITH ('type' = generic_string, 'secret_string' = 'marked-literal');
CREATE SECRET unused WITH ('type' = environment, 'variable' = 'OTHER');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'broker:9092', 'kafka.sasl.hash_function' = PLAIN,
  'kafka.sasl.username' = 'u', 'kafka.sasl.password' = lit);
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:5432/db', 'postgres.username' = 'u',
  'postgres.password' = 'marked-old');
CREATE STREAM clicks (url VARCHAR) WITH ('store' = 'k', 'topic' = 'clicks');
CREATE TABLE copied WITH ('store' = 'pg') AS SELECT url FROM clicks;
"""
UPDATE = "UPDATE STORE pg WITH ('postgres.password' = pw);"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ds.toml").write_text("store = 'k'\n")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(SQL)
    (tmp_path / "sql" / "b.sql").write_text(UPDATE)
    return tmp_path


def loaded(root: Path) -> LoadedProject:
    project = load_project(root)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project


def test_a_slice_carries_declarations_and_no_literal(root: Path) -> None:
    project = loaded(root)
    carried = slice_of(project, project.queries["copied"])
    text = "\n".join(statement.text for statement in carried)
    assert "CREATE SECRET pw" in text
    assert "'postgres.password' = pw" in text
    assert not {"lit", "unused"} & set(text.split())
    assert "marked" not in text
    assert "UPDATE" not in text


def test_a_slice_compiles_without_the_project(root: Path) -> None:
    (root / "sql" / "a.sql").write_text(SQL.replace("= lit", "= pw"))
    project = loaded(root)
    carried = slice_of(project, project.queries["copied"])
    for path in (root / "sql").iterdir():
        path.unlink()
    alone = compile_slice(carried, project.settings)
    assert not alone.errors
    assert alone.queries["copied"].fingerprint == project.queries["copied"].fingerprint
    assert secret_reader(alone, {"PG_PW": "x"})("pw", "store pg") == "x"


def test_a_slice_follows_the_project(root: Path) -> None:
    project = loaded(root)
    carried = slice_of(project, project.queries["copied"])
    (root / "sql" / "b.sql").write_text(UPDATE.replace("pw);", "newer, 'postgres.username' = 'v');"))
    (root / "sql" / "c.sql").write_text("CREATE SECRET newer WITH ('type' = environment, 'variable' = 'NEWER');")
    (root / "sql" / "a.sql").write_text(SQL.replace("'PG_PW'", "'ANOTHER'"))
    today = compile_slice(carried, project.settings)
    assert not today.errors, [problem.text() for problem in today.errors]
    store = today.catalog.store("pg")
    assert store.properties["postgres.password"].value == "${secret:newer}"
    assert store.properties["postgres.username"].value == "v"
    read = secret_reader(today, {"NEWER": "n", "ANOTHER": "a"})
    assert read("newer", "store pg") == "n"
    assert today.catalog.secrets["pw"].properties["variable"].value == "ANOTHER"


def test_the_cache_knows_secrets_and_updates(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_cache, "WORTH_SECONDS", -1.0)
    built, kept = loaded(root), loaded(root)
    assert (root / ".ds" / "cache" / "project.bin").is_file()
    assert dict(kept.catalog.secrets) == dict(built.catalog.secrets)
    assert kept.catalog.store("pg").updates == built.catalog.store("pg").updates
    assert b"marked" not in (root / ".ds" / "cache" / "project.bin").read_bytes()


def test_no_diagnostic_shows_a_literal(root: Path) -> None:
    (root / "sql" / "b.sql").write_text("")
    project = load_project(root)
    told = "".join(problem.text() + repr(problem) + problem.fragment for problem in project.diagnostics)
    assert "LITERAL_SECRET" in told
    assert "marked" not in told


def test_a_login_with_a_rotated_secret_is_tried_again() -> None:
    from ds_dagster.engine.worker import SparkHost
    from ds_dagster.redaction import Redactor

    host: Any = SimpleNamespace(context=SimpleNamespace(redactor=Redactor()))
    host._redacted = lambda problem, places: SparkHost._redacted(host, problem, places)
    refused = error("STORE_LOGIN_REFUSED", store="pg", address="h:5432", user="u")
    job: Any = SimpleNamespace(
        rotated=lambda: ("pw",), places="reads a of store k; writes b of store pg", is_stop_asked=False, query=None,
        failure=None, phase="starting",
    )  # fmt: skip
    SparkHost._failed(host, job, refused)
    assert isinstance(job.failure, ExternalError)
    assert job.failure.condition == "SECRET_ROTATED"
    assert "pw" in job.failure.message
    job.rotated = tuple
    SparkHost._failed(host, job, refused)
    assert isinstance(job.failure, DsError)
    assert job.failure.condition == "STORE_LOGIN_REFUSED"
    SparkHost._failed(host, job, error("TARGET_DIFFERS", table="b", difference="a column"))
    assert job.failure.detail == job.places, "a message that names no store"
