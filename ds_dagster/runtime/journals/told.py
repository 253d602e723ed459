"""How the journal stores a failure: the name of its condition and its parameters. Message and hint are made when a row
is read, so they are the reading version's texts."""

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
"""Columns with text in rows without ``parameters`` (earlier versions stored texts); empty in rows with
``parameters``."""


def told(failure: DsError, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """The columns of a failure.

    Args:
        failure: its span is not stored.
        redact: removes secrets from its parameters and its detail.
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
    """The failure in a row; None for a row without a failure, with a text of an older version, or with a condition that
    this version does not know."""
    if not parameters or condition not in CONDITIONS:
        return None
    return error_of(condition, parameters_of(parameters))


def read_texts(columns: Mapping[str, Any]) -> Mapping[str, str]:
    """``message`` and ``hint`` of a row with ``parameters``; empty for a row that has the texts itself. With an unknown
    condition, the message is the parameters."""
    if not columns.get("parameters"):
        return {}
    failure = failure_of(columns["condition"], columns["parameters"])
    if failure is None:
        return {"message": columns["parameters"], "hint": ""}
    return {"message": failure.message, "hint": failure.hint}
