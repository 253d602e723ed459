"""The outcome of one check, and how Dagster gets it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dagster as dg

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one check; ``reason`` and ``metadata`` explain it, ``condition`` names the failure (part of
    :attr:`mark`)."""

    passed: bool
    reason: str
    severity: dg.AssetCheckSeverity = ERROR
    condition: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def mark(self) -> str:
        """Key of a verdict: a new result is written when the outcome or the failure changes."""
        return "passed" if self.passed else f"failed {self.condition}".strip()


def check_result(key: dg.AssetCheckKey, verdict: Verdict, metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    """A verdict as the op of a check yields it."""
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata=metadata,
        description=verdict.reason,
    )


def evaluation(key: dg.AssetKey, name: str, verdict: Verdict, metadata: Mapping[str, Any]) -> dg.AssetCheckEvaluation:
    """A verdict as the sensor reports it."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata=metadata,
        description=verdict.reason,
    )
