"""The fixtures of :mod:`tests.command_line`."""

from __future__ import annotations

from tests.command_line import ds, project, views

__all__ = ["ds", "project", "views"]
