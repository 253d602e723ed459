"""A join of changelogs goes on from a checkpoint of an earlier version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.jvm.test_timed_rows import run_model

pytestmark = pytest.mark.spark


def test_rows_that_are_values_of_their_own_are_read_on(tmp_path: Path) -> None:
    """Without a head; and a store without such rows is told from one with them, so that nothing is looked up in it."""
    ran = run_model(tmp_path, "EarlierJoin", str(tmp_path), package="dsdagster.delta.join.", is_spark=True)
    assert ran.splitlines()[-1] == "equal", ran
