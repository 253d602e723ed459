"""Whether a store answers: one measured attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

from ds_dagster.catalog.entity import ProbeResult
from ds_dagster.errors import DsError


def probed(attempt: Callable[[], str]) -> ProbeResult:
    """The result of an attempt to reach a store.

    Args:
        attempt: connects, and returns a line about the server; raises :class:`DsError` if it does not answer.
    """
    began = time.monotonic()
    try:
        text, hint, is_ok = attempt(), "", True
    except DsError as problem:
        text, hint, is_ok = problem.message, problem.hint, False
    return ProbeResult(is_ok, text, int((time.monotonic() - began) * 1000), hint)
