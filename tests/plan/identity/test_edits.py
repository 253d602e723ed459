"""The verdict of every row of the table of edits, both ways."""

from __future__ import annotations

from pathlib import Path

from ds_dagster.plan.identity.compatibility import verdict
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from tests.plan.identity.edits import edits

WORDS = {
    "unchanged": "unchanged",
    "keeps_checkpoint": "keeps",
    "needs_new_checkpoint": "new version",
    "would_lose_data": "loses",
}
STORE = "CREATE STORE m WITH ('type' = MEMORY);\n"


def bound(sql: str, folder: Path) -> BoundQuery:
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="m")
    project = compile_texts([("edit.sql", STORE + sql)], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project.queries["s"]


def test_verdicts_are_those_of_the_table_both_ways(tmp_path: Path) -> None:
    wrong = []
    for edit in edits():
        before, after = bound(edit.before.sql, tmp_path), bound(edit.after.sql, tmp_path)
        pair = (WORDS[verdict(before, after).verdict], WORDS[verdict(after, before).verdict])
        if pair != (edit.verdict, edit.back):
            wrong.append((edit.title, pair))
    assert not wrong


def test_the_table_is_long_and_names_each_edit_once() -> None:
    titles = [edit.title for edit in edits()]
    assert len(titles) == len(set(titles)) >= 80
