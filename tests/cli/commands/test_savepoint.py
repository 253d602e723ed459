"""``ds savepoint`` asks the definition that runs, not today's statements, which files a copy needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.cli.main import run
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
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
