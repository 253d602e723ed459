"""Rows of views go by their age while their query runs and nothing comes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import VARCHAR
from ds_dagster.engine.expiry import ExpiryRounds, pause_seconds
from ds_dagster.engine.query import HostedQuery
from ds_dagster.errors import error
from ds_dagster.stores.memory import loader as memory_loader
from ds_dagster.stores.memory.loader import MemoryLoader
from tests.driven import Driven
from tests.runtime.fakes import FakeClock

PLACE = ("expiry", "v")
MINUTE = 60_000


@pytest.fixture
def loader() -> Any:
    target = TableTarget(PLACE, (TableColumn("url", VARCHAR, "VARCHAR"),), mode="append", retention_millis=MINUTE)
    made = Driven(MemoryLoader(PLACE, target, SinkIdentity("j", 1)))
    made.prepare()
    yield made
    memory_loader.clear(PLACE[0])


def hosted(loader: MemoryLoader, phase: str = "running") -> HostedQuery:
    job = HostedQuery(cast("Any", SimpleNamespace(name="v")), FakeClock(), phase=cast("Any", phase))
    job.prepared = cast("Any", SimpleNamespace(loaders=(loader,)))
    return job


def stored() -> int:
    return len(memory_loader.TABLES[PLACE].rows)


def test_a_quiet_view_loses_what_is_too_old(loader: MemoryLoader) -> None:
    clock = FakeClock()
    rounds = ExpiryRounds(lambda: [hosted(loader)], clock.monotonic)
    loader.load(pyarrow.table({"url": ["a"]}), 0)
    rounds.round()
    assert stored() == 1
    memory_loader.hold(PLACE[0], MINUTE)
    rounds.round()
    assert stored() == 1, "not due again"
    clock.advance(pause_seconds(MINUTE))
    rounds.round()
    assert stored() == 0


def test_only_views_that_are_being_filled(loader: MemoryLoader) -> None:
    loader.load(pyarrow.table({"url": ["a"]}), 0)
    memory_loader.hold(PLACE[0], MINUTE)
    ExpiryRounds(lambda: [hosted(loader, "starting")], FakeClock().monotonic).round()
    assert stored() == 1


def test_a_view_that_cannot_be_reached_is_told_once(
    loader: MemoryLoader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def refuse() -> int:
        raise error("VIEW_UNREADABLE", view="v")

    monkeypatch.setattr(loader, "expire", refuse)
    clock = FakeClock()
    rounds = ExpiryRounds(lambda: [hosted(loader)], clock.monotonic)
    for _ in range(2):
        rounds.round()
        clock.advance(MINUTE)
    assert [record.message for record in caplog.records if "old rows" in record.message] == [
        f"v: old rows of its view are not deleted yet: {error('VIEW_UNREADABLE', view='v')}"
    ]


@pytest.mark.parametrize(("retention", "seconds"), [(1, 1.0), (60_000, 6.0), (3_600_000, 60.0)])
def test_how_often(retention: int, seconds: float) -> None:
    assert pause_seconds(retention) == seconds
