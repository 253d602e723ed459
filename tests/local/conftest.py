"""State folders whose servers are stopped when the test ends, whatever happened in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ds_dagster import local


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / ".ds"
    yield folder
    local.down(folder)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All three servers, shared by the tests of a module that leave them running."""
    folder = tmp_path_factory.mktemp("shared") / ".ds"
    local.up(folder)
    yield folder
    local.down(folder)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    def wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not true within {seconds} s"
            time.sleep(0.02)

    return wait
