"""Whether a failed job starts again, and when."""

from __future__ import annotations

import pytest

from ds_dagster.errors import error
from ds_dagster.runtime.backoff import Backoff
from ds_dagster.runtime.decide import SOON, decide

BACKOFF = Backoff(base=1.0, factor=2.0, limit=60.0, jitter=0.0)


@pytest.mark.parametrize(
    ("condition", "attempts", "after"),
    [
        ("NETWORK_FAILED", 3, 4.0),
        ("NETWORK_FAILED", 9, 60.0),
        ("PYTHON_WORKER_SLOW", 3, 4.0),
        ("PYTHON_WORKER_SLOW", 9, SOON),
        ("SPARK_FAILED", 4, 8.0),
        ("SPARK_FAILED", 5, None),
        ("PATTERN_INVALID", 1, None),
    ],
)
def test_who_is_at_fault_decides_when_a_job_starts_again(condition: str, attempts: int, after: float | None) -> None:
    """A server gets longer and longer pauses, a busy machine short ones, a bug five tries, a mistake none."""
    fault = error(condition, detail="").fault
    assert decide(fault, attempts, finite=False, backoff=BACKOFF, random=lambda: 0.0).after == after


def test_a_run_somebody_waits_for_gives_up() -> None:
    fault = error("PYTHON_WORKER_SLOW").fault
    assert decide(fault, 4, finite=True, backoff=BACKOFF, random=lambda: 0.0).after == SOON
    assert decide(fault, 5, finite=True, backoff=BACKOFF, random=lambda: 0.0).after is None
