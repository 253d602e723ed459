"""Which windows of a table are closed, by the checkpoint of its query; and which tables have windows that may differ
from what their records give."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import NO_END, TimeRange
from ds_dagster.errors import DsError
from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.backfill import Backfill
from ds_dagster.runtime.checkpoint_log import kept_batches
from ds_dagster.runtime.control import Control
from ds_dagster.settings import Settings
from tests.runtime.test_checkpoint_switch import OWN, checkpoint

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM events (at BIGINT, id BIGINT) WITH ('store' = 'k', 'value.format' = 'json'%s);
CREATE TABLE t WITH ('store' = 'pg', 'refresh.mode' = 'continuous') AS SELECT window_start, window_end, COUNT(*) AS n
  FROM TUMBLE(events, SIZE 1 MINUTE) GROUP BY window_start, window_end;
"""


def backfill(root: Path, times: str = "", rate: int | None = None) -> Backfill:
    settings = Settings(root=root, sql=root, state=root / ".ds", store="k")
    project = compile_texts([("a.sql", SQL % times)], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    control = Control.open(settings)
    control.ensure(project, ["t"])
    span = TimeRange("window_start", datetime(2024, 1, 1, tzinfo=timezone.utc), NO_END)
    return Backfill(project, control, project.queries["t"], span, "tests", rate=rate)


def closed(of: Backfill, tip: Tip, *, is_stamped: bool = True) -> int | str:
    try:
        return of._closed(of.query.scans[0], tip, is_stamped=is_stamped)
    except DsError as problem:
        return problem.message


def test_windows_are_closed_up_to_the_watermark_of_the_newest_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, place = backfill(tmp_path), checkpoint(tmp_path / "v1", OWN, 7)
    tip = kept_batches(place).batches[6]
    assert "is not on this machine" in str(closed(of, tip))
    monkeypatch.setattr(Backfill, "_place", place)
    assert closed(of, tip) == 6
    assert "is not on this machine" in str(closed(of, Tip(6, "another batch of this number")))


def test_windows_that_may_lack_records_are_refused(tmp_path: Path) -> None:
    assert "lack records that came late" in str(closed(backfill(tmp_path / "a"), Tip(6), is_stamped=False))
    assert "lack records that came late" in str(closed(backfill(tmp_path / "b", ", 'timestamp' = 'at'"), Tip(6)))
    assert "--rate has no effect" in str(closed(backfill(tmp_path / "c", rate=5), Tip(6)))
