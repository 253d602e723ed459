"""``ds savepoint`` asks the definition that runs, not today's statements, which files a copy needs; ``ds restore``
finds the savepoints of a job under all names that it had."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.cli.commands import savepoint
from ds_dagster.cli.main import run
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.from_sink import SinkEnd
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.savepoints import Savepoints, put_savepoint
from ds_dagster.runtime.status import RESTORED
from ds_dagster.settings import load_settings
from tests.runtime.test_checkpoint_switch import OWN, checkpoint

SOURCE = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (n BIGINT) WITH ('store'='k', 'topic'='s', 'value.format'='json', 'topic.partitions'=1);
"""
COUNTED = "CREATE CHANGELOG a AS SELECT n, COUNT(*) AS c FROM s GROUP BY n;"
COPIED = "CREATE STREAM a AS SELECT n FROM s;"


@pytest.mark.parametrize(
    ("runs", "today", "is_refused"),
    [(COUNTED, "", True), (COUNTED, COPIED, True), (COPIED, COUNTED, False), (COPIED, "CREATE STREAM;", False)],
)
def test_the_copy_needs_the_state_of_the_definition_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: str, today: str, is_refused: bool
) -> None:
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "all.sql"
    file.write_text(SOURCE + runs)
    (tmp_path / "ds.toml").write_text('store = "k"\n')
    settings = load_settings(tmp_path)
    control = Control.open(settings)
    control.ensure(load_project(tmp_path, settings=settings), ["a"])
    job = control.running().jobs["a"]
    checkpoint(control.checkpoints().path(job.writes_as, job.checkpoint_version), OWN, 7, has_state=False)
    file.write_text(SOURCE + today)
    assert run(["savepoint", "a", "--project", str(tmp_path)]) == (1 if is_refused else 0)
    assert ("SAVEPOINT_REFUSED" in capsys.readouterr().err) == is_refused


@pytest.mark.parametrize(("version", "identity"), [(1, "a"), (2, "a@2")])
def test_a_job_has_its_savepoints_under_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, version: int, identity: str
) -> None:
    control = begun(tmp_path, COUNTED, version)
    assert run(["savepoint", "a", "--name", "one", "--project", str(tmp_path)]) == 0
    with control.journal.write() as connection:
        (job,) = rows.jobs(connection, ["a"]).values()
        rows.delete_job(connection, "a")
        rows.insert_jobs(connection, [replace(job, name="b", identity=identity, desired="STOPPED")])
        stopped = StatusRow("b", "STOPPED", generation=job.generation, checkpoint_version=job.checkpoint_version)
        rows.save_statuses(connection, [stopped], writer="engine")
    (tmp_path / "sql" / "all.sql").write_text(SOURCE + COUNTED.replace("CHANGELOG a", "CHANGELOG b WITH ('topic'='a')"))
    saved = Savepoints(tmp_path / ".ds" / "savepoints").get("a", "one")
    monkeypatch.setattr(savepoint, "sink_ends", lambda *_: (SinkEnd("k.a", saved.tip),))
    capsys.readouterr()
    assert run(["restore", "b", "one", "--dry-run", "--project", str(tmp_path)]) == 0, capsys.readouterr().err
    assert "b continues after batch 7, where its sinks end" in capsys.readouterr().err
    assert run(["savepoint", "b", "--list", "--project", str(tmp_path)]) == 0
    assert "one" in capsys.readouterr().out
    assert run(["savepoint", "b", "--delete", "one", "--project", str(tmp_path)]) == 0
    assert not Savepoints(tmp_path / ".ds" / "savepoints").all()


def test_one_of_another_version_names_the_way_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both versions have a first checkpoint and batches of the same numbers."""
    control = begun(tmp_path, COUNTED)
    assert run(["savepoint", "a", "--name", "one", "--project", str(tmp_path)]) == 0
    with control.journal.write() as connection:
        (job,) = rows.jobs(connection, ["a"]).values()
        rows.delete_job(connection, "a")
        kept = replace(job, name="a@1", query="a", role="kept", desired="STOPPED")
        rows.insert_jobs(connection, [kept, replace(job, version=2, latest=2, desired="STOPPED")])
    saved = Savepoints(tmp_path / ".ds" / "savepoints").get("a", "one")
    monkeypatch.setattr(savepoint, "sink_ends", lambda *_: (SinkEnd("k.a", saved.tip),))
    monkeypatch.setattr(
        savepoint, "store_admin", lambda *_: SimpleNamespace(describe=lambda _: None, close=lambda: None)
    )
    capsys.readouterr()
    assert run(["restore", "a", "one", "--dry-run", "--project", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "it is from version 1 of a [RESTORE_REFUSED]" in told and "`ds rollback a --to 1` first" in told


@pytest.mark.parametrize(("lost", "taken_from"), [(False, 1), (False, 2), (True, 1), (True, 2)])
def test_a_restored_query_is_restored_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lost: bool, taken_from: int
) -> None:
    """From the savepoint of the first time, and from a later one; also once the restored checkpoint is lost."""
    control = begun(tmp_path, COUNTED)
    restored = control.checkpoints().path("a", 2)
    savepoints = Savepoints(tmp_path / ".ds" / "savepoints")
    assert run(["savepoint", "a", "--name", "1", "--project", str(tmp_path)]) == 0
    put_savepoint(savepoints.get("a", "1"), restored)
    with control.journal.write() as connection:
        (job,) = rows.jobs(connection, ["a"]).values()
        rows.delete_job(connection, "a")
        job = replace(job, checkpoint_version=2, begins=RESTORED, desired="STOPPED")
        rows.insert_jobs(connection, [job])
        status = StatusRow("a", "STOPPED", generation=job.generation, checkpoint_version=2)
        rows.save_statuses(connection, [status], writer="engine")
    assert run(["savepoint", "a", "--name", "2", "--project", str(tmp_path)]) == 0
    if lost:
        shutil.rmtree(restored)
    tip = savepoints.get("a", str(taken_from)).tip
    monkeypatch.setattr(savepoint, "sink_ends", lambda *_: (SinkEnd("k.a", tip),))
    monkeypatch.setattr(savepoint, "entry_at", lambda *_: "v1")
    capsys.readouterr()
    code = run(["restore", "a", str(taken_from), "--dry-run", "--project", str(tmp_path)])
    assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize("facts", [None, EntityFacts("s", identity="topic-2")])
def test_a_fork_reads_the_topic_of_the_savepoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, facts: EntityFacts | None
) -> None:
    """In another environment the topic may be missing, or another one of the same name."""
    control = begun(tmp_path / "first", COPIED)
    job = control.running().jobs["a"]
    (source,) = load_project(tmp_path / "first", settings=load_settings(tmp_path / "first")).queries["a"].scans
    place = control.checkpoints().path(job.writes_as, job.checkpoint_version)
    (place / "ds-sources.json").write_text(json.dumps({source.source_name: "topic-1"}))
    folder = str(tmp_path / "saved")
    assert run(["savepoint", "a", "--name", "one", "--to", folder, "--project", str(tmp_path / "first")]) == 0
    begun(tmp_path / "second", COPIED)
    admin = SimpleNamespace(describe=lambda name: facts if name == "s" else None, close=lambda: None)
    monkeypatch.setattr(savepoint, "store_admin", lambda *_: admin)
    capsys.readouterr()
    stopped(Control.open(load_settings(tmp_path / "second")))
    assert run(["restore", "a", "one", "--from", folder, "--dry-run", "--project", str(tmp_path / "second")]) == 1
    told = capsys.readouterr().err
    assert "has read another k.s, whose records have other positions" in told and "`ds reset a`" in told


def stopped(control: Control) -> None:
    """The job is not wanted any more."""
    with control.journal.write() as connection:
        (job,) = rows.jobs(connection, ["a"]).values()
        rows.delete_job(connection, "a")
        rows.insert_jobs(connection, [replace(job, desired="STOPPED")])


def begun(root: Path, sql: str, version: int = 1) -> Control:
    """A job that has finished batch 7."""
    (root / "sql").mkdir(parents=True)
    (root / "sql" / "all.sql").write_text(SOURCE + sql)
    (root / "ds.toml").write_text('store = "k"\n')
    settings = load_settings(root)
    control = Control.open(settings)
    control.ensure(load_project(root, settings=settings), ["a"])
    with control.journal.write() as connection:
        (job,) = rows.jobs(connection, ["a"]).values()
        rows.delete_job(connection, "a")
        job = replace(job, version=version, latest=version)
        rows.insert_jobs(connection, [job])
    checkpoint(control.checkpoints().path(job.writes_as, job.checkpoint_version), OWN, 7)
    return control
