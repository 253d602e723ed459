"""The verdict of every row of the table of edits, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.deciding.changes import changes_of
from ds_dagster.runtime.deciding.spec import job_spec
from tests.plan.identity.edits import compiled, edits, job_row

WORDS = {
    "unchanged": "unchanged",
    "keeps_checkpoint": "keeps",
    "needs_new_checkpoint": "new version",
    "would_lose_data": "loses",
}


def word(old: LoadedProject, new: LoadedProject) -> tuple[str, tuple[str, ...]]:
    """The verdict on a job that runs the old definition, and the results that may be partial."""
    job = job_row(job_spec(old, old.queries["s"]))
    (change,) = changes_of(new, [new.queries["s"]], {"s": job})
    return WORDS[change.verdict], change.partial


@pytest.mark.sweep
def test_verdicts_are_those_of_the_table_both_ways(tmp_path: Path) -> None:
    wrong = []
    for edit in edits():
        before, after = compiled(edit.before.sql, tmp_path), compiled(edit.after.sql, tmp_path)
        pair = (word(before, after), word(after, before))
        partial = [tuple(calls.values()) for calls in (edit.partial, edit.back_partial)]
        if pair != ((edit.verdict, partial[0]), (edit.back, partial[1])):
            wrong.append((edit.title, pair))
    assert not wrong


def test_the_table_is_long_and_names_each_edit_once() -> None:
    titles = [edit.title for edit in edits()]
    assert len(titles) == len(set(titles)) >= 80
