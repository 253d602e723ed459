"""How the journal keeps a failure: the name of its condition and its parameters. Message and hint are made where they
are read, so they are those of the version that reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ds_dagster.conditions import CONDITIONS
from ds_dagster.envelope import parameters_of, to_parameters
from ds_dagster.errors import DsError, error_of

NOTHING: Mapping[str, str] = MappingProxyType(
    {"condition": "", "message": "", "hint": "", "detail": "", "parameters": ""}
)
"""Columns of a row without a failure."""
TEXTS = ("message", "hint")
"""Columns that rows without ``parameters`` keep, written by versions that kept texts; empty beside them."""


def told(failure: DsError, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """The columns of a failure.

    Args:
        failure: its span is not kept.
        redact: takes secrets out of its parameters and its detail.
    """
    params = {name: redact(value) if isinstance(value, str) else value for name, value in failure.params.items()}
    clean = error_of(failure.condition, params, detail=redact(failure.detail))
    return {
        "condition": clean.condition,
        "message": clean.message,
        "hint": clean.hint,
        "detail": clean.detail,
        "parameters": to_parameters(clean),
    }


def failure_of(condition: str, parameters: str) -> DsError | None:
    """The failure in a row; None without one, for a text of an older version, and for an unknown condition."""
    if not parameters or condition not in CONDITIONS:
        return None
    return error_of(condition, parameters_of(parameters))


def read_texts(columns: Mapping[str, Any]) -> Mapping[str, str]:
    """``message`` and ``hint`` of a row with ``parameters``; nothing of one that keeps them itself."""
    if not columns.get("parameters"):
        return {}
    failure = failure_of(columns["condition"], columns["parameters"])
    if failure is None:
        return {"message": columns["parameters"], "hint": ""}
    return {"message": failure.message, "hint": failure.hint}
