"""Retries of steps that fail for a transient reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def repeated(step: Callable[[], R], when: Callable[[BaseException], bool], attempts: int, most_seconds: float) -> R:
    """The result of ``step``, or its last exception.

    Args:
        step: a whole transaction.
        when: which exceptions are retried.
        attempts: most calls of ``step``.
        most_seconds: longest pause; pauses are random, so that two sessions in conflict do not retry together.
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
