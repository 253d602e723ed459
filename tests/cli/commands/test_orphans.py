"""Jobs whose statement is gone: every command that speaks of jobs says so, and one stops them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.entity_operations import EntityPath
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.main import run
from ds_dagster.cli.shell.session import Session
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.settings import Settings, load_settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (n BIGINT) WITH ('store'='k', 'topic'='s', 'value.format'='json', 'topic.partitions'=1);
CREATE STREAM old_name AS SELECT n FROM s;
CREATE STREAM kept AS SELECT n FROM s;
"""


@pytest.fixture
def renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two jobs are wanted, and the statement of one has another name since; nobody starts an engine."""
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "all.sql"
    file.write_text(SQL)
    (tmp_path / "ds.toml").write_text('store = "k"\n')
    settings = load_settings(tmp_path)
    Control.open(settings).ensure(load_project(tmp_path, settings=settings), ["old_name", "kept"])
    file.write_text(SQL.replace("old_name", "new_name"))
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    return settings


def told(capsys: pytest.CaptureFixture[str], settings: Settings, *words: str) -> tuple[Any, str]:
    capsys.readouterr()
    assert run([*words, "--project", str(settings.root)]) in (0, None)
    out, err = capsys.readouterr()
    return (json.loads(out) if "--json" in words else out), err


def test_plan_tells_what_no_statement_makes(renamed: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    changes, _ = told(capsys, renamed, "plan", "--json")
    verdicts = {change["name"]: change["verdict"] for change in changes}
    assert verdicts == {"new_name": "new", "kept": "unchanged", "old_name": "orphan"}


def test_plan_exits_with_2_while_something_waits(
    renamed: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ["--project", str(renamed.root)]
    assert run(["plan", "--exit-code", *root]) == 2
    assert (
        "the definitions are equal; it is ABSENT (ENGINE_NOT_RUNNING): `ds apply` starts it" in capsys.readouterr().out
    )
    absent = Control.open(renamed).status("kept")
    monkeypatch.setattr(Control, "statuses", lambda self, names=None: (replace(absent, state="RUNNING"),))
    assert run(["plan", "kept", "--exit-code", *root]) == 0
    assert run(["plan", "--exit-code", *root]) == 2, "one is new, one has no statement"
    assert run(["plan", *root]) in (0, None), "only when asked for"
    monkeypatch.setattr(Control, "statuses", lambda self, names=None: (replace(absent, state="FAILED"),))
    assert run(["plan", "kept", "--exit-code", "--json", *root]) == 2
    (renamed.root / "sql" / "all.sql").write_text("CREATE STREAM;")
    assert run(["plan", "--exit-code", *root]) == 1


def test_ps_marks_them(renamed: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = told(capsys, renamed, "ps", "--json")
    assert {job["name"]: job["orphan"] for job in found["jobs"]} == {"kept": False, "old_name": True}
    shown, _ = told(capsys, renamed, "ps")
    assert "orphan" in " ".join(shown.split())


def test_a_project_that_does_not_load_has_no_orphans(renamed: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    (renamed.root / "sql" / "all.sql").write_text("CREATE STREAM;")
    found, _ = told(capsys, renamed, "ps", "--json")
    assert not any(job["orphan"] for job in found["jobs"])


def test_apply_names_them_and_stops_them_when_asked(renamed: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = told(capsys, renamed, "apply", "--no-wait")
    assert "makes old_name" in said
    assert "ds apply --prune" in said
    assert Control.open(renamed).status("old_name").desired == "RUNNING"
    assert told(capsys, renamed, "apply", "--no-wait", "--json")[0]["orphans"] == ["old_name"]
    _, said = told(capsys, renamed, "apply", "--no-wait", "--prune")
    assert "stopping jobs that no statement of the project makes: old_name" in said
    assert told(capsys, renamed, "apply", "--no-wait", "--prune", "--json")[0]["orphans"] == [], "it is stopped"
    assert Control.open(renamed).status("old_name").desired == "STOPPED"
    assert Control.open(renamed).status("kept").desired == "RUNNING"


def test_a_part_of_the_project_is_not_pruned(renamed: Settings) -> None:
    assert run(["apply", "kept", "--prune", "--project", str(renamed.root)]) == 2
    assert run(["apply", "kept", "--allow", "prune", "--project", str(renamed.root)]) == 2


class Topics:
    """Operations on topics that nobody connects to."""

    def __init__(self) -> None:
        self.dropped: list[EntityPath] = []

    def path_of(self, relation: Relation) -> EntityPath:
        return (relation.entity,)

    def describe(self, _: EntityPath) -> None:
        return None

    def drop(self, path: EntityPath) -> None:
        self.dropped.append(path)


def test_the_topic_of_a_job_without_a_statement_is_not_dropped(
    renamed: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs on, whatever has become of the statements of its query and its sources."""
    topics = Topics()
    monkeypatch.setattr(Session, "operations", lambda *_: nullcontext(topics))
    (renamed.root / "sql" / "all.sql").write_text("CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');")
    for entity, jobs in (("s", "kept, old_name"), ("old_name", "old_name"), ("s", "kept, old_name")):
        assert run(["sql", "-c", f"DROP ENTITY {entity};", "--json", "--project", str(renamed.root)]) == 1
        (problem,) = json.loads(capsys.readouterr().out)["diagnostics"]
        assert (problem["condition"], jobs in problem["message"]) == ("ENTITY_IN_USE", True)
    assert topics.dropped == []
    Control.open(renamed).stop(["old_name"])
    assert run(["sql", "-c", "DROP ENTITY old_name;", "--project", str(renamed.root)]) in (0, None)
    assert topics.dropped == [("old_name",)]
