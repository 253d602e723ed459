"""Plan → plan with the same output: filters of one side are pushed below joins, a join with the extreme of the row's
own window becomes one step, scans decode only the columns that are read."""

from __future__ import annotations

from collections.abc import Callable

from ds_dagster.errors import error
from ds_dagster.plan.binding.filter_rules import push_filters
from ds_dagster.plan.binding.window_extremes import window_extremes
from ds_dagster.plan.nodes.rows import Sink


def rewrite(root: Sink) -> Sink:
    """Apply all rules in order; the root's output is the same before and after each."""
    for rule in RULES:
        rewritten = rule(root)
        if rewritten.output != root.output:
            raise error("INTERNAL", where=f"rewrite {rule.__name__}: the schema changed")
        root = rewritten
    return root


def prune(root: Sink) -> Sink:
    """Scans read only the columns that steps above need; sub-selects and aggregates make only fields that are used."""
    return root.pruned(root.names)


RULES: tuple[Callable[[Sink], Sink], ...] = (push_filters, window_extremes, prune)
