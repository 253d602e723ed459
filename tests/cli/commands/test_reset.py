"""``ds reset``, ``ds plan`` and ``ds apply`` over a stream that would have its rows twice: without transactions no new
version takes over exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import StatusRow
from tests.command_line import Ds
from tests.runtime.fakes import engine_says

COPY = """
CREATE STREAM copy WITH ('topic.partitions' = 1, 'delivery' = 'at_least_once') AS SELECT url FROM clicks{position};
CREATE MATERIALIZED VIEW opened AS SELECT url, COUNT(*) AS n FROM copy GROUP BY url;
"""


def write(project: Path, position: str = "") -> None:
    (project / "sql" / "copy.sql").write_text(COPY.format(position=position))


@pytest.fixture
def control(project: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    """A stream and the view behind it, both at work; nobody starts an engine."""
    write(project)
    loaded = load_project(project)
    assert not loaded.errors
    made = Control.open(loaded.settings)
    made.ensure(loaded, ["copy", "opened"])
    works = {"generation": 1, "checkpoint_version": 1, "batch": 3}
    engine_says(made, StatusRow("copy", "RUNNING", **works), StatusRow("opened", "RUNNING", **works))
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    return made


def test_a_stream_is_reset_with_consent_only(ds: Ds, control: Control) -> None:
    refused = ds("reset", "copy", "--no-wait", "--json")
    assert (refused.code, refused.conditions) == (1, ["RESET_WOULD_DOUBLE"])
    said = refused.json["diagnostics"][0]
    assert "d.public.copy" in said["message"]
    assert "downstream: opened" in said["message"]
    assert "ds reset copy --from now" in said["hint"]
    assert "--allow duplicates" in said["hint"]
    assert control.status("copy").generation == 1
    assert ds("reset", "copy", "--no-wait", "--allow", "duplicates", "--json").code == 0
    assert control.status("copy").generation == 2


def test_a_view_is_reset_without(ds: Ds, control: Control) -> None:
    assert ds("reset", "opened", "--no-wait", "--json").code == 0
    assert control.status("opened").generation == 2


def test_plan_and_apply_say_it_of_a_changed_stream(ds: Ds, control: Control, project: Path) -> None:
    write(project, " WITH ('starting.position' = 'timestamp', 'starting.timestamp' = 5)")
    changes = {change["name"]: change for change in ds("plan", "--json").json}
    assert (changes["copy"]["doubles"], changes["copy"]["readers"]) == (["d.public.copy"], ["opened"])
    assert changes["opened"]["doubles"] == []
    assert "writes rows again that d.public.copy has; downstream: opened" in ds("plan", "copy").out
    applied = ds("apply", "copy", "--no-wait", "--json")
    assert applied.conditions == ["DEFINITION_CHANGED"]
    assert "--allow duplicates" in applied.json["diagnostics"][0]["hint"]
    assert control.status("copy").generation == 1


def test_from_now_on_needs_no_consent(ds: Ds, control: Control, project: Path) -> None:
    write(project, " WITH ('starting.position' = 'latest')")
    assert ds("reset", "copy", "--no-wait", "--json").code == 0
    assert control.status("copy").generation == 2
