"""Steps that are tried again at once, since what broke them passes by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def repeated(step: Callable[[], R], when: Callable[[BaseException], bool], attempts: int, most_seconds: float) -> R:
    """What ``step`` returns, or the last exception it raises.

    Args:
        step: a whole transaction.
        when: which exceptions are tried again.
        attempts: how often at most.
        most_seconds: longest pause; pauses are random, so that two that were in each other's way part.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    patient = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(most_seconds / 8, most_seconds),
        retry=retry_if_exception(when),
        reraise=True,
    )
    result: R = patient(step)
    return result
