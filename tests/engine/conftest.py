"""The fixtures of ``tests/runtime``, of which a project folder and a journal are wanted here too."""

from __future__ import annotations

from tests.runtime.conftest import clock, control, living_engine, settings, verdicts

__all__ = ["clock", "control", "living_engine", "settings", "verdicts"]
