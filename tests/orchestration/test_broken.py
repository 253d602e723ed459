"""Mistakes in the SQL: failing assets instead of a dead code location, and refusals where Dagster validates."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from ds_dagster.errors import ProjectError
from ds_dagster.orchestration import DsProject, build_ds_definitions
from tests.orchestration.conftest import STORES, STREAMS, checks, failure_text, write_project

BROKEN = """
-- Wrong column.
CREATE STREAM wrong AS SELECT urll FROM clicks;

CREATE STREAM after_wrong AS SELECT * FROM wrong;

CREATE STREAM unparsable AS SELECT FROM WHERE;
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_project(
        tmp_path / "project",
        stores=STORES,
        streams=STREAMS,
        broken=BROKEN,
        noise="THIS IS NOT SQL;",
        bad_store="CREATE STORE odd WITH ('type' = KAFKA, 'urls' = 'localhost:9092');",
        owners=STREAMS.replace("CREATE STREAM clicks", "CREATE STREAM c2")
        .split("-- Clicks from desktop")[0]
        .replace("'topic'='clicks'", "'topic'='c2'")
        .replace("team:web", "nobody"),
    )


def run(definitions: dg.Definitions, *path: str) -> dg.ExecuteInProcessResult:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(asset_selection=[dg.AssetKey(list(path))], raise_on_error=False)


def test_everything_loads(broken: Path) -> None:
    definitions = build_ds_definitions(DsProject(broken))
    dg.Definitions.validate_loadable(definitions)
    names = {"/".join(spec.key.path) for spec in definitions.resolve_all_asset_specs()}
    right = {f"shop/public/{name}" for name in ("clicks", "desktop", "counts", "visits")}
    wrong = {f"shop/public/{name}" for name in ("wrong", "after_wrong", "unparsable", "c2")}
    assert names == right | wrong | {"sql_files/sql_noise_sql", "sql_files/sql_bad_store_sql"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("shop", "public", "wrong"), "UNKNOWN_COLUMN"),
        (("shop", "public", "after_wrong"), "wrong"),
        (("shop", "public", "unparsable"), "broken.sql:7"),
        (("shop", "public", "c2"), "OWNER_INVALID"),
        (("sql_files", "sql_noise_sql"), "noise.sql:1"),
        (("sql_files", "sql_bad_store_sql"), "uris"),
    ],
)
def test_a_mistake_is_a_failing_asset_and_a_failing_check(broken: Path, path: tuple[str, ...], said: str) -> None:
    result = run(build_ds_definitions(DsProject(broken)), *path)
    assert not result.success
    assert said in failure_text(result)
    assert checks(result) == {(path[-1], "compiles"): False}


def test_the_statement_is_shown_with_its_place(broken: Path) -> None:
    specs = {spec.key.path[-1]: spec for spec in build_ds_definitions(DsProject(broken)).resolve_all_asset_specs()}
    (reference,) = specs["wrong"].metadata["dagster/code_references"].code_references
    assert (Path(reference.file_path).name, reference.line_number) == ("broken.sql", 3)
    assert "SELECT urll" in (specs["wrong"].description or "")


def test_strict_projects_refuse(broken: Path) -> None:
    with pytest.raises(ProjectError) as refused:
        build_ds_definitions(DsProject(broken, strict=True))
    text = str(refused.value)
    assert "UNKNOWN_COLUMN" in text
    assert "noise.sql" in text


def test_dagsters_validation_is_strict(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_IS_DEFS_VALIDATION_CLI", "1")
    with pytest.raises(ProjectError):
        build_ds_definitions(DsProject(broken))


def test_what_only_the_translator_refuses_is_strict_too(tmp_path: Path) -> None:
    folder = write_project(tmp_path, stores=STORES, streams=STREAMS.replace("@freshness 10m", "@freshness 5s"))
    assert build_ds_definitions(DsProject(folder))
    with pytest.raises(ProjectError) as refused:
        build_ds_definitions(DsProject(folder, strict=True))
    assert "FRESHNESS_INVALID" in str(refused.value)


def test_an_empty_project_loads(tmp_path: Path) -> None:
    definitions = build_ds_definitions(DsProject(write_project(tmp_path)))
    dg.Definitions.validate_loadable(definitions)
    assert list(definitions.resolve_all_asset_specs()) == []
