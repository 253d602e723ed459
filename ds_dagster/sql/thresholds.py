"""``@check`` of a comment: a limit on one figure of the queries that fill a relation."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ds_dagster.figures import FIGURES
from ds_dagster.sql.statements import Comment

CHECK_TAG = "check"
LIMITED: Mapping[str, str] = MappingProxyType(
    {figure.name: field for field, figure in FIGURES.items() if figure.unit not in ("moment", "by name")}
)
"""Figures that may have a limit: name → field of :class:`ds_dagster.figures.Figures`. Moments are not in it, since
``@freshness`` limits them, nor figures by name: each constraint has its own check."""

Severity = Literal["error", "warn"]
_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
)
_THRESHOLD = re.compile(
    r"(?P<figure>[a-z_]+)\s*(?P<sign><=|>=|<|>|=)\s*(?P<limit>\d+(?:\.\d+)?)(?:\s+(?P<severity>error|warn))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """``@check bad_records <= 10 warn``: a figure of :data:`LIMITED`, its limit, and the severity of a violation."""

    figure: str
    sign: str
    limit: float
    severity: Severity = "error"

    @property
    def name(self) -> str:
        """Name of the check in Dagster. A figure may have two checks: one that warns and one that fails."""
        return self.figure if self.severity == "error" else f"{self.figure}_warn"

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether a value satisfies the limit."""
        return _COMPARE[self.sign](value, self.limit)


def threshold_of(text: str) -> Threshold | None:
    """The value of ``@check``; None if it is not valid."""
    match = _THRESHOLD.fullmatch(text.strip())
    if match is None or match["figure"].lower() not in LIMITED:
        return None
    severity: Severity = "warn" if (match["severity"] or "").lower() == "warn" else "error"
    return Threshold(match["figure"].lower(), match["sign"], float(match["limit"]), severity)


def thresholds_of(comment: Comment) -> tuple[Threshold, ...]:
    """The valid ``@check`` tags of a comment; if two have the same name, the last one."""
    values = (threshold_of(value) for name, value in comment.tags if name == CHECK_TAG)
    return tuple({value.name: value for value in values if value is not None}.values())
