"""Fixtures of :mod:`tests.command_line` that need no project of theirs."""

from __future__ import annotations

from tests.command_line import ds, session_stays

__all__ = ["ds", "session_stays"]
