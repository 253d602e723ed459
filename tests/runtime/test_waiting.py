"""Waiting has an end, and what is waited for goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ds_dagster.errors import ExternalError
from ds_dagster.runtime.control import Control
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, project, query


@pytest.mark.sweep
def test_a_run_that_takes_longer_than_its_waiter_goes_on(
    control: Control,
    settings: Settings,
    clock: FakeClock,
    living_engine: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ds_dagster.runtime.control.POLL_SECONDS", 1.0)  # else it asks three hundred times
    clock.on_sleep = living_engine
    request = control.request_run(project(settings, query("load", "t", refresh="full")), "load")
    began = clock.monotonic()
    with pytest.raises(ExternalError, match="RUN_TIMED_OUT") as refused:
        control.wait_run(request, timeout=30.0)
    assert 30 <= clock.monotonic() - began < 35
    assert "ds logs load" in refused.value.hint
    assert control.request_run(project(settings, query("load", "t", refresh="full")), "load") == request, "still open"
