"""The fixtures of ``tests/runtime``, of which a project folder and a journal are wanted here too."""

from __future__ import annotations

import pytest

from tests.runtime.conftest import clock, control, living_engine, settings, verdicts

__all__ = ["clock", "control", "living_engine", "settings", "verdicts"]

for name in ("kafka_jobs", "realtime_jobs", "spark_jobs"):
    pytest.register_assert_rewrite(f"tests.engine.{name}")
