"""Where a node of a SELECT stands in its file."""

from __future__ import annotations

from sqlglot import exp

from ds_dagster.diagnostics import Span


def span_of(node: exp.Expression, fallback: Span) -> Span:
    """Span of a node: its own position, else the one of its first part that has one, else ``fallback``."""
    for candidate in node.walk(bfs=False):
        meta = candidate.meta
        if "line" in meta and "col" in meta:
            width = meta.get("end", 0) - meta.get("start", 0) + 1
            line, column = meta["line"], meta["col"]
            return Span(fallback.file, line, column, line, column + width)
    return fallback
