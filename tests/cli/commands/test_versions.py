"""Exit codes of commands about versions: a version that does not run is a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import JobStatus
from ds_dagster.runtime.versioning import Versions
from tests.command_line import Ds

VIEW = "CREATE MATERIALIZED VIEW visits AS SELECT url, device, count(*) AS n"


@pytest.fixture
def changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view is requested, and its statement changes."""
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, ["visits"])
    file = project / "sql" / "all.sql"
    text = file.read_text()
    assert VIEW in text
    file.write_text(text.replace(VIEW, f"{VIEW}, max(price) AS most"))
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Each job that a command waits for ends in a state."""

    def set_state(state: str) -> None:
        def wait(self: Control, names: Sequence[str], *_: object) -> Sequence[JobStatus]:
            return [replace(self.status(name), state=state, message="it is broken") for name in names]  # type: ignore[arg-type]

        monkeypatch.setattr(Control, "wait", wait)

    return set_state


@pytest.mark.parametrize(("state", "code"), [("RUNNING", 0), ("FAILED", 1), ("STARTING", 1)])
def test_a_staged_version_that_does_not_run_fails_the_command(
    changed: None, ds: Ds, ends: Callable[[str], None], state: str, code: int
) -> None:
    ends(state)
    outcome = ds("stage", "visits", "--json")
    assert (outcome.code, outcome.json["ok"]) == (code, code == 0)
    (version,) = outcome.json["versions"]
    assert version == {
        "name": "visits",
        "version": 2,
        "state": f"is {state}: it is broken" if code else "staged",
    }


@pytest.mark.parametrize(("state", "code"), [("RUNNING", 0), ("FAILED", 1), ("STOPPED", 1)])
def test_a_version_that_serves_and_does_not_run_fails_the_command(
    changed: None, ds: Ds, ends: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, state: str, code: int
) -> None:
    ends("RUNNING")
    assert ds("stage", "visits").code == 0
    ends(state)
    monkeypatch.setattr(Versions, "wait_served", lambda *_: 2)
    outcome = ds("promote", "visits", "--yes", "--json")
    assert (outcome.code, outcome.json["ok"]) == (code, code == 0)
    outcome = ds("apply", "visits", "--allow", "new-version", "--json")
    assert (outcome.code, outcome.json["ok"]) == (code, code == 0)
    assert outcome.json["queries"] == [{"name": "visits", "outcome": "promoted", "state": state}]


def test_the_plan_names_the_commands_of_a_new_version_first(changed: None, ds: Ds) -> None:
    shown = ds("plan", "visits").out
    assert "visits  new version" in shown
    assert "  to do: `ds stage visits` builds it next to the running query, and `ds promote visits` lets it" in shown


@pytest.mark.parametrize(
    ("words", "condition"),
    [
        (("stage", "visits"), "STAGE_NOTHING_SERVES"),
        (("promote", "visits"), "NOTHING_STAGED"),
        (("rollback", "visits"), "NOTHING_KEPT"),
        (("abandon", "visits"), "STAGE_NOTHING_SERVES"),
        (("stage", "visit"), "JOB_UNKNOWN"),
        (("promote", "visit"), "JOB_UNKNOWN"),
        (("rollback", "visit"), "JOB_UNKNOWN"),
        (("abandon", "visit"), "JOB_UNKNOWN"),
    ],
)
def test_a_refused_request_starts_no_engine(
    ds: Ds, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], condition: str
) -> None:
    started: list[str] = []
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: started.extend(names))
    outcome = ds(*words)
    assert outcome.code == 1 and condition in outcome.err
    assert not started


def test_a_staged_version_leaves_the_history_of_the_running_one(
    changed: None, ds: Ds, ends: Callable[[str], None], project: Path
) -> None:
    control = Control.open(load_project(project).settings)
    before = control.transitions("visits")
    ends("RUNNING")
    assert ds("stage", "visits").code == 0
    assert control.transitions("visits") == before
    assert [entry.reason for entry in control.transitions("visits@2")] == ["stage"]
