"""Case files written by tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ds_dagster.testing.session import shared_session
from tests.buckets import SIZES, buckets_of
from tests.command_line import ds, session_stays

__all__ = ["ds", "session_stays"]
WriteCase = Callable[..., Path]


@pytest.fixture
def write_case(tmp_path: Path) -> WriteCase:
    """Write a case into a project of its own; further files by name."""

    def write(text: str, name: str = "a.case.yaml", **files: str) -> Path:
        (tmp_path / "ds.toml").touch()
        for other, content in files.items():
            (tmp_path / other).write_text(content, encoding="utf-8")
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(params=SIZES)
def buckets(request: pytest.FixtureRequest) -> Iterator[None]:
    """What operators keep of a key is in many buckets, and with the long tests in one value as it usually is."""
    with buckets_of(shared_session(), request.param):
        yield
