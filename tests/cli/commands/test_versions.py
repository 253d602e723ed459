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
            return [replace(self.status(name), state=state, message="it is broken", hint="mend it") for name in names]  # type: ignore[arg-type]

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
        "hint": "mend it" if code else "",
    }
    if code:
        assert "hint: mend it" in ds("stage", "visits").err


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


def test_the_plan_says_what_to_do_with_a_version_that_is_staged(
    changed: None, project: Path, ds: Ds, ends: Callable[[str], None]
) -> None:
    ends("RUNNING")
    assert ds("stage", "visits").code == 0
    shown = ds("plan", "visits").out
    assert "to do: version 2 is staged with this definition: `ds promote visits` lets it take over" in shown
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace("max(price) AS most", "min(price) AS least"))
    other = "version 2 is staged with another definition: `ds abandon visits` drops it, or `ds promote visits`"
    shown = ds("plan", "visits").out
    assert f"to do: {other} lets it take over first; then `ds stage visits` builds this one" in shown
    refused = ds("apply", "visits").err
    assert "needs a new checkpoint" in refused and other in refused
    assert "STAGED_OTHERWISE" in ds("stage", "visits").err
    file.write_text(file.read_text().replace(", min(price) AS least", ""))
    (line,) = ds("plan", "visits", "--json").json
    assert line["verdict"] == "unchanged" and "`ds abandon visits` drops it" in line["staged"]
    assert "staged: version 2 is staged" in ds("plan", "visits").out
    assert ds("abandon", "visits").code == 0
    assert "staged" not in ds("plan", "visits").out


def test_a_version_that_is_abandoned_while_it_starts_is_not_staged(
    changed: None, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(self: Control, names: Sequence[str], *_: object) -> Sequence[JobStatus]:
        Versions(self).abandon("visits")
        return [replace(self.status(name), state="STOPPED") for name in names]

    monkeypatch.setattr(Control, "wait", wait)
    outcome = ds("stage", "visits")
    assert outcome.code == 1 and "visits: version 2 was abandoned meanwhile" in outcome.out


def test_all_that_readers_would_notice_is_asked_for_at_once(
    changed: None, project: Path, ds: Ds, ends: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends("RUNNING")
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace("count(*) AS n, max", "CAST(count(*) AS VARCHAR) AS n, max"))
    assert ds("stage", "visits").code == 0
    refused = ds("promote", "visits")
    assert refused.code == 1 and "PROMOTION_CHANGES_COLUMNS" in refused.err
    assert "n: BIGINT NOT NULL → VARCHAR NOT NULL; its rows are not counted" in refused.err
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._wait_near", lambda *_: None)
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._count", lambda *arguments: 7 if arguments[-1] else 9)
    assert "VARCHAR NOT NULL; 7 rows instead of 9 [PROMOTION_CHANGES_COLUMNS]" in ds("promote", "visits").err
    monkeypatch.setattr(Versions, "wait_served", lambda *_: 2)
    assert ds("promote", "visits", "--yes").code == 0


def applied(ds: Ds, allow: str, *words: str) -> tuple[int, str, list[str]]:
    """Exit code, outcome of the query and conditions of ``ds apply``."""
    outcome = ds("apply", "visits", "--allow", allow, "--json", *words)
    return outcome.code, outcome.json["queries"][0]["outcome"], outcome.conditions


def test_apply_lets_no_version_take_over_that_readers_would_notice(
    changed: None, project: Path, ds: Ds, ends: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends("RUNNING")
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace("count(*) AS n, max", "CAST(count(*) AS VARCHAR) AS n, max"))
    for _ in range(2):
        assert applied(ds, "new-version") == (1, "staged", ["PROMOTION_CHANGES_COLUMNS"])
    assert "`ds apply --allow new-version,differences`" in ds("apply", "visits", "--allow", "new-version").err
    assert "visits@2" in Versions(Control.open(load_project(project).settings)).jobs("visits")
    monkeypatch.setattr(Versions, "wait_served", lambda *_: 2)
    assert applied(ds, "new-version,differences") == (0, "promoted", [])


def test_apply_counts_the_rows_of_a_version(
    changed: None, ds: Ds, ends: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends("RUNNING")
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._is_behind", lambda *_: False)
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._wait_near", lambda *_: None)
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._count", lambda *args: 7 if args[-1] else 9)
    assert applied(ds, "new-version") == (1, "staged", ["PROMOTION_CHANGES_ROWS"])
    monkeypatch.setattr("ds_dagster.questions.upkeep.promotion._count", lambda *args: 9)
    monkeypatch.setattr(Versions, "wait_served", lambda *_: 2)
    assert applied(ds, "new-version") == (0, "promoted", [])


def test_apply_that_does_not_wait_leaves_a_version_staged_that_has_not_caught_up(
    changed: None, project: Path, ds: Ds
) -> None:
    versions = Versions(Control.open(load_project(project).settings))
    outcome = ds("apply", "visits", "--allow", "new-version", "--no-wait")
    assert outcome.code == 0 and "staged: visits; `ds promote visits` lets them take over" in outcome.err
    assert applied(ds, "new-version", "--no-wait") == (0, "staged", [])
    assert versions.jobs("visits")["visits@2"].role == "staged"
    assert applied(ds, "new-version,differences", "--no-wait") == (0, "requested", [])
    assert versions.jobs("visits")["visits@2"].role == "promoting"
    assert applied(ds, "new-version", "--no-wait") == (0, "requested", [])


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
