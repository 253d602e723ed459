"""Whether a failed job starts again, and when."""

from __future__ import annotations

import pytest

from ds_dagster.errors import error
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.decide import REPEATED_SECONDS, REPEATS, SOON, Streak, decide

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
    fault = error("INPUT_GONE").fault
    assert decide(fault, 4, finite=True, backoff=BACKOFF, random=lambda: 0.0).after == 8.0
    assert decide(fault, 5, finite=True, backoff=BACKOFF, random=lambda: 0.0).after is None


def test_a_busy_machine_fails_no_run() -> None:
    fault = error("PYTHON_WORKER_SLOW").fault
    assert decide(fault, 50, finite=True, backoff=BACKOFF, random=lambda: 0.0).after == SOON


def decided(condition: str, streak: Streak, now: float) -> float | None:
    fault = error(condition).fault
    return decide(fault, 1, finite=False, backoff=BACKOFF, random=lambda: 0.0, streak=streak, now=now).after


def test_a_batch_that_fails_again_and_again_is_a_failure() -> None:
    """Ten times in a row and over ten minutes, by one condition; one more batch begins anew."""
    kept = ""
    for number in range(REPEATS):
        streak = Streak.after(kept, "INPUT_GONE", 6, 100.0 + number)
        kept = streak.to_json()
    assert (streak.count, streak.since) == (REPEATS, 100.0)
    assert decided("INPUT_GONE", streak, 100.0 + REPEATED_SECONDS - 1) is not None
    assert decided("INPUT_GONE", streak, 100.0 + REPEATED_SECONDS) is None
    assert "batch 7 failed 10 times in a row with INPUT_GONE, over 10 min" in streak.text(100.0 + REPEATED_SECONDS)
    for other in (("INPUT_GONE", 7), ("SPARK_LOST", 6)):
        assert Streak.after(kept, *other, 200.0).count == 1


@pytest.mark.parametrize(
    "condition", ["KAFKA_UNREACHABLE", "NETWORK_FAILED", "PYTHON_WORKER_SLOW", "KINESIS_THROTTLED"]
)
def test_what_does_not_answer_is_asked_for_ever(condition: str) -> None:
    assert decided(condition, Streak(condition, 3, 1000, 0.0), 1e6) is not None


def test_two_ends_of_the_engine_in_one_batch_are_enough() -> None:
    first = Streak.after("", "ENGINE_OUT_OF_MEMORY", None, 5.0)
    again = Streak.after(first.to_json(), "ENGINE_OUT_OF_MEMORY", None, 6.0)
    assert decided("ENGINE_OUT_OF_MEMORY", first, 5.0) is not None
    assert decided("ENGINE_OUT_OF_MEMORY", again, 6.0) is None
