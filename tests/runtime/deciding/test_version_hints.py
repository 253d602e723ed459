"""Hints about versions that do not serve: only the serving version is reset, restarted and repaired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds_dagster.conditions import CONDITIONS
from ds_dagster.runtime.deciding.version_hints import STARTS_OVER, hint_of_version
from ds_dagster.runtime.journals.records import JobRow

SERVING = JobRow("v", "d.p.v", "RUNNING", 3, "ensure", "ann", 1.0, "", "v1:old", 1)
STAGED = replace(SERVING, name="v@2", query="v", version=2, role="staged", action="stage")
AGAIN = "run `ds abandon v`, then `ds stage v` to build the version again"


def test_no_hint_of_a_version_that_does_not_serve_names_a_command_for_the_serving_one() -> None:
    promoting = replace(STAGED, role="promoting", action="promote")
    for job in (STAGED, promoting, replace(STAGED, role="kept"), replace(promoting, action="rollback")):
        hints = {name: hint_of_version(condition.hint, job) for name, condition in CONDITIONS.items()}
        assert {name: hint for name, hint in hints.items() if STARTS_OVER.search(hint)} == {}
        turned = {name for name, condition in CONDITIONS.items() if hints[name] != condition.hint}
        assert turned == {name for name, condition in CONDITIONS.items() if STARTS_OVER.search(condition.hint)}
        assert {name: hints[name] for name in turned if "`ds stage v`" not in hints[name]} == {}
    assert {hint_of_version(condition.hint, SERVING) == condition.hint for condition in CONDITIONS.values()} == {True}


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("INPUT_RECREATED", AGAIN),
        ("CHECKPOINT_MISSING", f"restore the folder, or {AGAIN}"),
        ("CDC_COLUMN_GONE", f"correct the columns of the relation; {AGAIN}"),
        ("JOB_SPEC_NEWER", f"upgrade ds_dagster here to {{version}} or newer; {AGAIN}"),
        ("BAD_RECORD", CONDITIONS["BAD_RECORD"].hint.partition(", then `ds restart`")[0] + f"; {AGAIN}"),
    ],
)
def test_the_first_step_of_a_hint_stays(condition: str, hint: str) -> None:
    assert hint_of_version(CONDITIONS[condition].hint, STAGED) == hint


def test_a_kept_version_is_dropped_by_another_command() -> None:
    kept = hint_of_version(CONDITIONS["INPUT_RECREATED"].hint, replace(STAGED, role="kept"))
    assert kept.startswith("run `ds gc --yes`") and "abandon" not in kept
