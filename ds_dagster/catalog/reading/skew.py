"""Difference between this machine's clock and the clock of a server that stamps records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

HARMLESS_SECONDS = 0.5
"""The least lateness bound of sources whose records a server stamps: a smaller difference makes no row late."""


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """Seconds that this machine's clock is ahead; below zero: behind. None where nothing is known.

    ``at_least``, ``at_most``: the bounds that were proven.
    """

    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_harmless(self) -> bool:
        """Whether no difference above :data:`HARMLESS_SECONDS` is proven."""
        ahead = self.at_least is not None and self.at_least > HARMLESS_SECONDS
        behind = self.at_most is not None and self.at_most < -HARMLESS_SECONDS
        return not (ahead or behind)

    def text(self) -> str:
        """The difference as text for people."""
        if self.at_least is None and self.at_most is None:
            return "cannot be told: no record was written while it was looked at"
        bounds = [f"at least {self.at_least:+.1f} s"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:+.1f} s"] if self.at_most is not None else []
        return f"this machine's clock is {', '.join(bounds)} ahead of it"


@runtime_checkable
class TellsTime(Protocol):
    """A store whose admin can compare clocks; nothing is written."""

    def skew(self, entities: Sequence[str]) -> ClockSkew | None:
        """The difference, from records of ``entities`` (those the project reads); None if the server stamps none."""
