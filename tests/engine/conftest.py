"""The fixtures of ``tests/runtime``, of which a project folder and a journal are wanted here too."""

from __future__ import annotations

from tests.runtime.conftest import clock, control, settings, verdicts

__all__ = ["clock", "control", "settings", "verdicts"]
