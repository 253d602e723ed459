"""A query whose state fills much of the heap says so while it runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from ds_dagster.engine.query import CROWDED_SHARE, HostedQuery
from ds_dagster.spark.queries.progress import BatchProgress
from tests.runtime.fakes import FakeClock

HEAP = 2_000_000_000


def hosted(heap: int) -> HostedQuery:
    job = HostedQuery(cast("Any", SimpleNamespace(name="sums")), FakeClock(), phase="running", heap=heap)
    job._batch = BatchProgress(batch=3)
    return job


def filled(job: HostedQuery, share: float) -> str:
    job.progress = replace(job.progress, state_bytes=round(share * HEAP))
    job._take_lag()
    return str(job.progress.details.get("state", ""))


def test_a_full_heap_is_shown_as_long_as_it_is_full_and_logged_once() -> None:
    job = hosted(HEAP)
    assert not filled(job, CROWDED_SHARE - 0.01)
    assert not job.crowded()
    shown = filled(job, 0.4)
    assert shown == "its state fills 40% of the JVM's heap; QUERY WITH ('state.store' = 'rocksdb') keeps it on disk"
    assert [*job.crowded(), *job.crowded()] == [shown]
    assert not filled(job, 0.1)


def test_state_elsewhere_is_not_compared_with_the_heap() -> None:
    job = hosted(0)
    assert not filled(job, 5.0)
    assert not job.crowded()
