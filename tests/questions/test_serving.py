"""A question has the columns of the definition that runs, not of one that is still to come."""

from __future__ import annotations

from pathlib import Path

from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.questions.binding import bind_question
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.settings import load_settings
from ds_dagster.sql.script import parse_select

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'tls.disabled' = TRUE);
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
CREATE MATERIALIZED VIEW v AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;
"""


def project(folder: Path, select: str = "COUNT(*) AS c") -> LoadedProject:
    (folder / "sql").mkdir(exist_ok=True)
    (folder / "sql" / "a.sql").write_text(SQL.replace("COUNT(*) AS c", select))
    (folder / "ds.toml").write_text("")
    return load_project(folder, settings=load_settings(folder), strict=True)


def columns(loaded: LoadedProject) -> list[tuple[str, str]]:
    question = bind_question(loaded, parse_select("SELECT * FROM v"))
    return [(name, str(type_)) for name, type_ in question.columns]


def test_the_definition_that_runs_answers(tmp_path: Path) -> None:
    first = project(tmp_path)
    assert columns(first) == [("url", "VARCHAR"), ("c", "BIGINT")]
    control = Control.open(first.settings, environment={})
    control.ensure(first, ["v"])
    changed = project(tmp_path, "CAST(COUNT(*) AS VARCHAR) AS c, SUM(n) AS total")
    assert columns(changed) == [("url", "VARCHAR"), ("c", "BIGINT")], "what runs is the first definition"
    control.ensure(changed, ["v"], "reset")
    assert columns(changed) == [("url", "VARCHAR"), ("c", "VARCHAR"), ("total", "BIGINT")]
    with control.journal.write() as connection:
        rows.delete_job(connection, "v")
    assert columns(changed)[1:] == [("c", "VARCHAR"), ("total", "BIGINT")], "nothing runs"
    control.journal.close()
