"""Lag of a running query: what its sources say, what a look beside it finds, and what a look may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, cast

import pytest

from ds_dagster.catalog.reading.lag import SourceLag
from ds_dagster.engine.lag import LagLook, WatchedSource, lag_figures, named, passed_on, positions_of
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.watch import LagWatch
from ds_dagster.errors import DsError, error
from ds_dagster.spark.queries.progress import BatchProgress, SourceProgress
from tests.runtime.fakes import FakeClock

NOW = 1_700_000_000.0
MILLIS = int(NOW * 1000)


def source(name: str, lag: int | None, seconds: float | None = None, lost: int = 0) -> SourceProgress:
    return SourceProgress(name, 0, {f"topic_{name}/0": 5, f"topic_{name}/1": 7}, {}, lag, seconds, lost, "a" * lost)


def batch(*sources: SourceProgress, number: int = 3) -> BatchProgress:
    return BatchProgress(batch=number, sources=sources)


CASES: tuple[tuple[BatchProgress, LagLook | None, tuple[int | None, float | None]], ...] = (
    (batch(), None, (0, None)),
    (batch(source("a", 0)), None, (0, 0.0)),
    (batch(source("a", 4)), None, (4, None)),
    (batch(source("a", 4), source("b", 0)), None, (4, None)),
    (batch(source("a", None, 1.5), source("b", 0)), None, (None, 1.5)),
    (batch(source("a", 4)), LagLook(3, NOW, {"a": SourceLag(6, MILLIS - 2500)}), (6, 2.5)),
    (batch(source("a", 4)), LagLook(2, NOW - 1, {"a": SourceLag(6, MILLIS - 2500)}), (4, 1.5)),
    (batch(source("a", 0)), LagLook(2, NOW - 1, {"a": SourceLag(6, MILLIS - 2500)}), (0, 0.0)),
    (batch(source("a", 4)), LagLook(3, NOW - 31, {"a": SourceLag(6, MILLIS - 2500)}), (4, None)),
    (batch(source("a", 4)), LagLook(3, NOW, {"a": SourceLag(0)}), (0, 0.0)),
    (batch(source("a", 4)), LagLook(3, NOW, {"a": SourceLag(6, None)}), (6, None)),
    (batch(source("a", 4)), LagLook(3, NOW, {"a": SourceLag(6, MILLIS + 60_000)}), (6, 0.0)),
    (
        batch(source("a", 4), source("b", None, 7.0)),
        LagLook(3, NOW, {"a": SourceLag(6, MILLIS - 2500)}),
        (None, 7.0),
    ),
)


@pytest.mark.parametrize(("progress", "look", "expected"), CASES)
def test_figures(progress: BatchProgress, look: LagLook | None, expected: tuple[int | None, float | None]) -> None:
    found = lag_figures(progress, look, NOW)
    assert (found.records, found.seconds) == expected
    assert set(found.details["sources"]) == {one.name for one in progress.sources}


REPORTS: tuple[tuple[SourceProgress, LagLook | None, tuple[int | None, float | None]], ...] = (
    (source("a", 0), None, (0, 0.0)),
    (source("a", 0), LagLook(3, NOW, {"a": SourceLag(900, MILLIS - 9000)}), (0, 0.0)),  # since the last checkpoint
    (source("a", 2), None, (None, None)),
    (source("a", 2), LagLook(2, NOW, {"a": SourceLag(2, None)}), (None, None)),  # a look of another batch
    (source("a", 2), LagLook(3, NOW, {"a": SourceLag(2, None)}), (0, 0.0)),  # markers of transactions alone
    (source("a", 2), LagLook(3, NOW, {"a": SourceLag(9, MILLIS + 500)}), (0, 0.0)),  # came after the batch
    (source("a", 70), LagLook(3, NOW, {"a": SourceLag(90, MILLIS - 30_000)}), (70, 30.0)),
)


@pytest.mark.parametrize(("reported", "look", "expected"), REPORTS)
def test_what_waits_in_real_time_mode(
    reported: SourceProgress, look: LagLook | None, expected: tuple[int | None, float | None]
) -> None:
    """Batches of ten seconds that end now."""
    began = datetime.fromtimestamp(NOW - 10, tz=timezone.utc).isoformat(timespec="milliseconds")
    report = replace(batch(reported), timestamp=began.replace("+00:00", "Z"), duration_millis=10_000)
    found = lag_figures(passed_on(report, look), None, NOW)
    assert (found.records, found.seconds) == expected


def test_details_are_told_source_by_source() -> None:
    found = lag_figures(batch(source("a", 4, lost=2), source("b", None)), None, NOW)
    assert found.details == {
        "sources": {"a": {"lag_records": 4, "lost": "aa", "lost_records": 2}, "b": {"lost_records": 0}}
    }


def test_positions_are_those_of_the_partitions() -> None:
    assert positions_of(source("x.y/z", 0)) == {"0": 5, "1": 7}


def test_sources_go_by_their_own_names() -> None:
    reported = [replace(source(name, 0), name=f"KafkaV2[Subscribe[topic_{name}]]") for name in ("a", "b", "b", "c")]
    found = named(batch(*reported), {"one": "topic_b", "two": "topic_b", "three": "topic_a"})
    assert [one.name for one in found.sources] == ["three", "one", "two", "KafkaV2[Subscribe[topic_c]]"]


class Probe:
    """A connection for control that can look."""

    def __init__(self, found: SourceLag | DsError) -> None:
        self.found = found
        self.asked: list[tuple[str, Mapping[str, int] | None]] = []
        self.closed = 0

    def lag(self, entity: str, positions: Mapping[str, int]) -> SourceLag:
        self.asked.append((entity, positions))
        if isinstance(self.found, DsError):
            raise self.found
        return self.found

    def identity(self, entity: str) -> str:
        self.asked.append((entity, None))
        return self.found.identity if isinstance(self.found, SourceLag) else ""

    def close(self) -> None:
        self.closed += 1


class Order:
    name = "job"


def hosted(probe: Probe, progress: BatchProgress | None, *, idle: bool = False) -> HostedQuery:
    job = HostedQuery(cast("Any", Order), FakeClock(NOW), phase="running")
    made = WatchedSource("topic_a", "k.topic_a", "first", "shared", lambda: cast("Any", probe))
    job.sources = {"a": made}
    job._batch = progress
    job.is_idle = idle
    return job


def watch(job: HostedQuery) -> tuple[LagWatch, list[DsError]]:
    told: list[DsError] = []
    return LagWatch(lambda: [job], lambda _, problem: told.append(problem)), told


def test_a_look_goes_into_the_progress() -> None:
    probe = Probe(SourceLag(9, MILLIS - 4000, "first"))
    job = hosted(probe, batch(source("a", 4)))
    looker, told = watch(job)
    looker.round()
    job._take_lag()
    assert probe.asked == [("topic_a", {"0": 5, "1": 7})]
    assert (job.progress.lag_records, job.progress.lag_seconds, told) == (9, 4.0, [])
    job._batch = batch(source("a", 3), number=4)
    job._take_lag()
    assert (job.progress.lag_records, job.progress.lag_seconds) == (3, 4.0), "what was found behind an older batch"
    job._batch = batch(source("a", 0), number=5)
    job._take_lag()
    assert (job.progress.lag_records, job.progress.lag_seconds) == (0, 0.0)


@pytest.mark.parametrize("progress", [None, batch(source("a", 4))])
def test_an_idle_query_is_asked_for_its_identity_only(progress: BatchProgress | None) -> None:
    probe = Probe(SourceLag(0, None, "first"))
    job = hosted(probe, progress, idle=progress is not None)
    looker, told = watch(job)
    looker.round()
    assert (probe.asked, told, job._lag) == ([("topic_a", None)], [], None)


@pytest.mark.parametrize("progress", [None, batch(source("a", 4))])
def test_an_entity_made_anew_ruins_the_query(progress: BatchProgress | None) -> None:
    looker, told = watch(hosted(Probe(SourceLag(9, MILLIS, "second")), progress))
    looker.round()
    assert [(problem.condition, problem.params["entity"]) for problem in told] == [("INPUT_RECREATED", "k.topic_a")]


def test_an_entity_that_is_gone_is_left_to_the_query() -> None:
    looker, told = watch(hosted(Probe(SourceLag(0, None, "")), None))
    looker.round()
    assert not told


def test_a_look_that_fails_is_told_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    probe = Probe(error("STORE_UNREACHABLE", store="k", address="h:1", detail="no answer"))
    job = hosted(probe, batch(source("a", 4)))
    looker, told = watch(job)
    for _ in range(3):
        looker.round()
    assert (len(probe.asked), told, len(caplog.records)) == (3, [], 1)
    probe.found = SourceLag(4, MILLIS, "first")
    looker.round()
    assert job._lag is not None


def test_connections_are_shared_and_closed_when_nobody_needs_them() -> None:
    probe = Probe(SourceLag(4, MILLIS, "first"))
    jobs = [hosted(probe, batch(source("a", 4))) for _ in range(3)]
    opened: list[Probe] = []

    def connect() -> Any:
        opened.append(probe)
        return probe

    for job in jobs:
        job.sources = {"a": WatchedSource("topic_a", "k.topic_a", "first", "shared", connect)}
    looker = LagWatch(lambda: jobs, lambda *_: None)
    looker.round()
    assert (len(opened), probe.closed) == (1, 0)
    jobs.clear()
    looker.round()
    assert probe.closed == 1
