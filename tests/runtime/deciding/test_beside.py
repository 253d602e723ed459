"""Which changes have a version beside the running one, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock

STORES = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'tls.disabled' = TRUE);
CREATE STORE p WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/db', 'postgres.username' = 'u');
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
"""
QUERIES = {
    "CREATE MATERIALIZED VIEW v AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "",
    "CREATE MATERIALIZED VIEW v WITH ('store' = 'p') AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "",
    "CREATE TABLE v WITH ('store' = 'p', 'refresh.mode' = 'continuous') AS SELECT url, n FROM clicks;": "",
    "CREATE TABLE v WITH ('store' = 'p') AS SELECT url, n FROM clicks;": "each of its loads ends by itself",
    "CREATE CHANGELOG v WITH ('store' = 'k') AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": (
        "it writes the changelog default.public.v, and only materialized views and tables"
    ),
    "CREATE MATERIALIZED VIEW v AS SELECT url, n FROM clicks WITH ("
    "'source.deserialization.error.handling' = 'IGNORE_AND_LOG', "
    "'source.deserialization.error.log.topic' = 'bad', 'source.deserialization.error.log.store' = 'k');": (
        "both versions would write the row log"
    ),
}


def compiled(folder: Path, text: str) -> tuple[LoadedProject, BoundQuery]:
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="k")
    project = compile_texts([("a.sql", STORES + text)], settings)
    assert not project.errors, [d.message for d in project.errors]
    return project, project.queries["v"]


@pytest.mark.parametrize("text", QUERIES)
def test_which_queries_have_versions(tmp_path: Path, text: str) -> None:
    reason = why_not_beside(*compiled(tmp_path, text))
    assert reason.startswith(QUERIES[text]) and bool(reason) == bool(QUERIES[text])


def test_a_view_that_moved_is_not_handed_over(tmp_path: Path) -> None:
    in_file, in_server, *_ = QUERIES
    _, old = compiled(tmp_path, in_file)
    project, query = compiled(tmp_path, in_server)
    assert "another place now: p.public.v" in why_not_beside(project, query, old)


def test_a_version_that_cannot_be_is_refused_with_its_reason(tmp_path: Path) -> None:
    changelog = next(text for text in QUERIES if "CHANGELOG" in text)
    project, _ = compiled(tmp_path, changelog)
    control = Control.open(project.settings, clock=FakeClock(), environment={})
    control.ensure(project, ["v"])
    with pytest.raises(DsError) as refused:
        Versions(control).stage(project, "v")
    assert refused.value.condition == "STAGE_REFUSED"
    assert "only materialized views" in refused.value.message
    control.journal.close()


def test_a_version_that_takes_columns_away_asks_first(tmp_path: Path) -> None:
    in_file, *_ = QUERIES
    project, _ = compiled(tmp_path, in_file)
    control = Control.open(project.settings, clock=FakeClock(), environment={})
    control.ensure(project, ["v"])
    versions = Versions(control)
    changed, _ = compiled(tmp_path, in_file.replace("COUNT(*) AS c", "CAST(SUM(n) AS VARCHAR) AS c"))
    versions.stage(changed, "v")
    with pytest.raises(DsError) as refused:
        versions.promote("v")
    assert refused.value.condition == "PROMOTION_CHANGES_COLUMNS"
    assert "c: BIGINT" in refused.value.message and "ds promote v --yes" in refused.value.hint
    assert versions.promote("v", may_break=True) == "v@2"
    versions.abandon("v")
    added, _ = compiled(tmp_path, in_file.replace("COUNT(*) AS c", "COUNT(*) AS c, SUM(n) AS total"))
    assert versions.stage(added, "v") == versions.promote("v") == "v@3"
    control.journal.close()


def test_a_definition_that_does_not_compile_any_more_has_a_version_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise error("SLICE_INVALID", name="v", detail="an older dialect")

    in_file, *_ = QUERIES
    project, _ = compiled(tmp_path, in_file)
    control = Control.open(project.settings, clock=FakeClock(), environment={})
    control.ensure(project, ["v"])
    monkeypatch.setattr("ds_dagster.runtime.versioning.recompiled", gone)
    changed, _ = compiled(tmp_path, in_file.replace("COUNT(*) AS c", "SUM(n) AS c"))
    versions = Versions(control)
    assert versions.stage(changed, "v") == versions.promote("v") == "v@2"
    control.journal.close()
