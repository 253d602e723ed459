"""Conditions of the topic: constants in expressions, each tried when a project is checked."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = ()
