"""A state store that knows its keys holds and counts what Spark's own does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.jvm.test_timed_rows import SEED, run_model

pytestmark = pytest.mark.spark


def test_random_batches_equal_plain_maps(tmp_path: Path) -> None:
    """With and without column families, dropped batches, batches repeated from an earlier version, stores opened anew,
    and keys that are not known."""
    ran = run_model(
        tmp_path, "KnownKeysModel", str(tmp_path), str(SEED), "10", package="dsdagster.state.keys.", is_spark=True
    )
    assert ran.splitlines()[-1] == "equal", ran
