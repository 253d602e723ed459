"""Which changes have a version beside the running one, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock

STORES = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'tls.disabled' = TRUE);
CREATE STORE p WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/db', 'postgres.username' = 'u');
CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'eu-west-1');
CREATE STREAM shards (id BIGINT) WITH ('store' = 'n', 'topic' = 'shards', 'value.format' = 'json');
CREATE STREAM others (url VARCHAR) WITH ('store' = 'k', 'topic' = 'others', 'value.format' = 'json');
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
"""
QUERIES = {
    "CREATE MATERIALIZED VIEW v AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "",
    "CREATE MATERIALIZED VIEW v WITH ('store' = 'p') AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "",
    "CREATE TABLE v WITH ('store' = 'p', 'refresh.mode' = 'continuous') AS SELECT url, n FROM clicks;": "",
    "CREATE TABLE v WITH ('store' = 'p') AS SELECT url, n FROM clicks;": "each of its loads ends by itself",
    "CREATE CHANGELOG v WITH ('store' = 'k') AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "",
    "CREATE CHANGELOG v WITH ('store' = 'k', 'delivery' = 'at_least_once') AS "
    "SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;": "default.public.v is not written exactly once",
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT url, n FROM clicks;": "",
    "CREATE CHANGELOG v WITH ('store' = 'k') AS SELECT window_start, window_end, COUNT(*) AS c "
    "FROM TUMBLE(clicks, SIZE 1 MINUTE) GROUP BY window_start, window_end;": "",
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT a.url FROM clicks a JOIN others b WITHIN 1 MINUTE "
    "ON a.url = b.url;": "",
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT a.url FROM clicks a JOIN clicks b WITHIN 1 MINUTE "
    "ON a.url = b.url;": "it reads a topic twice",
    "CREATE STREAM v WITH ('store' = 'k', 'delivery' = 'at_least_once') AS SELECT url FROM clicks;": (
        "default.public.v is not written exactly once"
    ),
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT url FROM clicks WITH ('starting.position' = 'latest');": (
        "it reads default.public.clicks from the latest record on"
    ),
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT url, SUM(n) OVER (PARTITION BY url ORDER BY rowtime()) AS s "
    "FROM clicks;": "",
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT q.url, q.s FROM (SELECT a.url, SUM(a.n) OVER (PARTITION BY a.url "
    "ORDER BY rowtime()) AS s FROM clicks a) q JOIN others b WITHIN 1 MINUTE ON q.url = b.url;": (
        "a step of it (Over) is handed over at an exact point only where no other keeps state"
    ),
    "CREATE STREAM v WITH ('store' = 'k') AS SELECT DISTINCT url FROM clicks;": "a step of it (",
    "CREATE STREAM s (url VARCHAR) WITH ('store' = 'k', 'topic' = 's', 'value.format' = 'json'); "
    "INSERT INTO s SELECT url FROM clicks QUERY WITH ('query.name' = 'v');": (
        "other statements may write default.public.s"
    ),
    "CREATE STREAM v WITH ('store' = 'n', 'topic.shards' = 1) AS SELECT url FROM clicks;": (
        "default.public.v is not written exactly once"
    ),
    "CREATE STREAM v WITH ('store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT id FROM shards;": (
        "only positions in topics of Kafka are compared, and it reads default.public.shards"
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
    assert "has moved to p.public.v" in why_not_beside(project, query, old)


STREAM = "CREATE STREAM v WITH ('store' = 'k') AS SELECT url, n FROM clicks;"


def test_a_stream_is_handed_over_at_a_position_in_each_source(tmp_path: Path) -> None:
    _, old = compiled(tmp_path, STREAM)
    project, query = compiled(
        tmp_path, "CREATE STREAM v WITH ('store' = 'k') AS SELECT url FROM clicks UNION ALL SELECT url FROM others;"
    )
    assert why_not_beside(project, query, old).startswith("it reads other sources")
    assert job_spec(project, query).in_turn and JobSpec.from_json(job_spec(project, query).to_json()).in_turn
    refined, _, closed, *_ = (text for text in QUERIES if text.startswith("CREATE CHANGELOG"))
    project, old = compiled(tmp_path, refined)
    assert not job_spec(project, old).in_turn
    assert why_not_beside(*compiled(tmp_path, closed), old).startswith("only one of the two definitions")


def test_a_plan_says_new_version_where_a_reset_would_write_rows_twice(tmp_path: Path) -> None:
    project, _ = compiled(tmp_path, STREAM)
    control = Control.open(project.settings, clock=FakeClock(), environment={})
    control.ensure(project, ["v"])
    later = "clicks WITH ('starting.position' = 'timestamp', 'starting.timestamp' = '2026-01-01 00:00:00')"
    changed, _ = compiled(tmp_path, STREAM.replace("clicks", later))
    (change,) = control.changes(changed, ["v"])
    assert change.beside and change.doubles == ("default.public.v",)
    with pytest.raises(DsError) as refused:
        control.ensure(changed, ["v"])
    assert "ds promote v" in refused.value.hint and "twice" not in refused.value.hint
    control.journal.close()


def test_a_version_that_cannot_be_is_refused_with_its_reason(tmp_path: Path) -> None:
    changelog = next(text for text in QUERIES if "CHANGELOG" in text and "at_least_once" in text)
    project, _ = compiled(tmp_path, changelog)
    control = Control.open(project.settings, clock=FakeClock(), environment={})
    control.ensure(project, ["v"])
    with pytest.raises(DsError) as refused:
        Versions(control).stage(project, "v")
    assert refused.value.condition == "STAGE_REFUSED"
    assert "not written exactly once" in refused.value.message
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
    monkeypatch.setattr("ds_dagster.runtime.deciding.changes.recompiled", gone)
    changed, _ = compiled(tmp_path, in_file.replace("COUNT(*) AS c", "SUM(n) AS c"))
    versions = Versions(control)
    assert versions.stage(changed, "v") == versions.promote("v") == "v@2"
    control.journal.close()
