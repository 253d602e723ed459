"""A question has the columns of the definition that runs, not of one that is still to come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

from ds_dagster.errors import DsError, error
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.questions.answers import ask_select
from ds_dagster.questions.binding import Question, bind_question
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


def test_a_question_is_answered_once_more_where_another_version_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names change in the store between binding and reading, and in the journal a moment later."""
    first = project(tmp_path)
    control = Control.open(first.settings, environment={})
    control.ensure(first, ["v"])
    changed = project(tmp_path, "SUM(n) AS total")
    body = parse_select("SELECT * FROM v")
    question = bind_question(changed, body)
    with control.journal.write() as connection:
        row = replace(rows.jobs(connection)["v"], name="v@2", query="v", version=2, role="promoting", action="promote")
        rows.insert_jobs(connection, [replace(row, desired="STOPPED")])
    answers: list[tuple[str, ...]] = []

    def ask(_: LoadedProject, asked: Question) -> pyarrow.Table:
        names = tuple(name for name, _ in asked.columns)
        answers.append(names)
        if names == ("url", "c"):
            raise error("VIEW_UNREADABLE", view="v", reason="no such column: c")
        return pyarrow.table({name: [] for name in names})

    def flips(_: float) -> None:
        with control.journal.write() as connection:
            rows.delete_job(connection, "v@2")
        control.ensure(changed, ["v"], "reset")

    monkeypatch.setattr("ds_dagster.questions.answers.ask", ask)
    monkeypatch.setattr("ds_dagster.questions.answers.time.sleep", flips)
    later, table = ask_select(changed, body, question)
    assert answers == [("url", "c"), ("url", "total")]
    assert [name for name, _ in later.columns] == table.column_names == ["url", "total"]
    control.ensure(project(tmp_path), ["v"], "reset")
    with pytest.raises(DsError) as refused:
        ask_select(changed, body, question)
    assert refused.value.condition == "VIEW_UNREADABLE", "no other version serves"
    control.journal.close()
