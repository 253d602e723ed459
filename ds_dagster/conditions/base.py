"""The record of one condition and the rendering of its templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "not_yet", "unsupported", "external", "unreachable", "busy", "waiting", "internal"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that can go wrong.

    Attributes:
        name: stable, upper case with underscores.
        kind: whose fault; decides the exception class and the retry (``CLASSES`` and ``FAULTS`` in
            :mod:`ds_dagster.errors`).
        message: ``str.format`` template, short, lower case, no full stop.
        hint: ``str.format`` template that says what to do; may be empty for internal faults only.
        sqlstate: code of the nearest error of DeltaStream, from the error list of its drivers; empty if none fits.
    """

    name: str
    kind: Kind
    message: str
    hint: str = ""
    sqlstate: str = ""


class _Shown(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def render(template: str, params: Mapping[str, object]) -> str:
    """Fill a template; a missing parameter stays visible as ``{name}`` rather than raising inside an error path."""
    shown = {
        key: ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else value
        for key, value in params.items()
    }
    return template.format_map(_Shown(shown))
