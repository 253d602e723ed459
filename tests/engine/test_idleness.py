"""When a query has caught up: two looks at a waiting query, or a trigger that found nothing."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ds_dagster.engine import query as query_module
from ds_dagster.engine.query import EMPTY_SECONDS, EXECUTED, HostedQuery
from ds_dagster.spark.queries.progress import BatchProgress
from tests.runtime.fakes import FakeClock

NOW = 1_700_000_000.0
WAITS = {"isTriggerActive": False, "isDataAvailable": False, "message": "Waiting for data to arrive"}
ASKS = {"isTriggerActive": True, "isDataAvailable": False, "message": "Getting offsets from changes"}
WORKS = {"isTriggerActive": True, "isDataAvailable": True, "message": "Processing new data"}


class Job:
    """A job whose Spark query has the given status and reports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock(NOW)
        self.reports: list[BatchProgress] = []
        self.hosted = HostedQuery(cast("Any", SimpleNamespace(name="job", incarnation=1)), self.clock, phase="running")
        monkeypatch.setattr(
            query_module, "recent_progress", lambda *_: [self.reports.pop(0) for _ in list(self.reports)]
        )
        monkeypatch.setattr(query_module, "read_progress", lambda report: report)

    def report(self, *, ago: float, ran: bool) -> None:
        began = datetime.fromtimestamp(self.clock.now() - ago, timezone.utc).isoformat().replace("+00:00", "Z")
        self.reports.append(BatchProgress(batch=1, timestamp=began, durations={EXECUTED: 1} if ran else {}))

    def look(self, status: dict[str, object], after: float = 0.5) -> tuple[bool, float | None]:
        """Look a while later. Whether it is busy, and how long ago everything was read."""
        self.clock.sleep(after)
        self.hosted.query = cast("Any", SimpleNamespace(status=status, isActive=True))
        self.hosted.look()
        read = self.hosted.progress.caught_up
        return self.hosted.observation().busy, None if read is None else round(self.clock.now() - read, 3)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(monkeypatch)


def test_two_looks_at_a_waiting_query(job: Job) -> None:
    assert job.look(WAITS) == (False, None)
    assert job.look(WAITS) == (False, 0.5)
    assert job.look(ASKS) == (True, 1.0)
    assert job.look(WAITS) == (False, 1.5), "the look between did not see it wait"
    assert job.look(WAITS) == (False, 0.5)


def test_a_source_that_waits_reports_triggers_that_found_nothing(job: Job) -> None:
    assert job.look(ASKS) == (True, None)
    job.report(ago=0.2, ran=False)
    assert job.look(ASKS) == (False, 0.7)
    job.report(ago=0.1, ran=False)
    assert job.look(ASKS) == (False, 0.6)
    assert job.look(ASKS) == (False, 1.1), "no new report"


def test_a_batch_ends_what_the_report_said(job: Job) -> None:
    job.report(ago=0.0, ran=False)
    assert job.look(ASKS) == (False, 0.5)
    assert job.look(WORKS) == (True, 1.0)
    job.report(ago=0.0, ran=True)
    assert job.look(ASKS) == (True, 1.5)


def test_an_old_report_says_nothing_of_now(job: Job) -> None:
    """The source is asked and does not answer: a server that does not respond, for example."""
    job.report(ago=0.0, ran=False)
    assert job.look(ASKS) == (False, 0.5)
    assert job.look(ASKS, EMPTY_SECONDS) == (True, EMPTY_SECONDS + 0.5)
