"""Stored definitions that today's code no longer accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.runtime.changes import recompiled
from ds_dagster.runtime.spec import JobSpec
from ds_dagster.settings import Settings


def test_a_stored_definition_that_does_not_compile(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds")
    with pytest.raises(DsError) as refused:
        recompiled(JobSpec("q", "default.public.q", (), "f", "s", "0.1"), settings)
    assert refused.value.condition == "SLICE_INVALID"
    assert "q" in refused.value.message
    assert "ds restart q" in refused.value.hint
