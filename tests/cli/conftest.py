"""The fixtures of :mod:`tests.command_line`, and a broker in memory."""

from __future__ import annotations

from tests.command_line import ds, project, session_stays, views
from tests.questions.upkeep.left_out_records import broker

__all__ = ["broker", "ds", "project", "session_stays", "views"]
