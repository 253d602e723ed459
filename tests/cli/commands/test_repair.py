"""``ds repair`` over a journal in which an engine has written why a job does not go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import StatusRow
from tests.command_line import Ds
from tests.runtime.fakes import engine_says

COPY = "CREATE STREAM copy WITH ('topic.partitions' = 1) AS SELECT url FROM clicks;\n"


@pytest.fixture
def control(project: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    """Two jobs whose target is gone and one that runs; nobody starts an engine."""
    (project / "sql" / "copy.sql").write_text(COPY)
    loaded = load_project(project)
    assert not loaded.errors
    made = Control.open(loaded.settings)
    made.ensure(loaded, ["copy", "visits", "paid"])
    gone = {"condition": "TARGET_GONE", "message": "it is gone", "generation": 1, "checkpoint_version": 1}
    engine_says(made, StatusRow("copy", "FAILED", **gone), StatusRow("visits", "FAILED", **gone))
    monkeypatch.setattr(Control, "ensure_engines", lambda *_: None)
    monkeypatch.setattr(Control, "wait", lambda self, names, *_: self.statuses(names))
    return made


@pytest.mark.usefixtures("control")
def test_the_ways_are_listed(ds: Ds) -> None:
    told = ds("repair", "visits", "--json").json
    assert (told["name"], told["state"], told["condition"]) == ("visits", "FAILED", "TARGET_GONE")
    assert [(way["name"], way["exact"]) for way in told["ways"]] == [("restore-sink", True), ("reset", True)]
    assert "ds reset copy" in ds("repair", "copy").out
    assert "nothing to repair" in ds("repair", "paid").err


def test_a_reset_that_is_exact_is_done_and_kept_in_the_history(ds: Ds, control: Control) -> None:
    ds("repair", "visits", "--reset", "--json")
    newest = next(found for found in control.transitions("visits") if found.kind == "desired")
    assert newest.actor == "ds repair (TARGET_GONE)"
    assert control.status("visits").generation == 2


def test_a_reset_that_doubles_rows_is_refused(ds: Ds, control: Control) -> None:
    done = ds("repair", "copy", "--reset", "--json")
    assert (done.code, "REPAIR_NOT_EXACT" in done.out + done.err) == (1, True)
    assert control.status("copy").generation == 1


def test_an_unknown_job_is_named(ds: Ds) -> None:
    assert "JOB_UNKNOWN" in (done := ds("repair", "nobody", "--json")).out + done.err
