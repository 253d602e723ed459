"""Whether the rows of a query can be computed again for a range of time: reasons why not, as texts."""

from __future__ import annotations

from ds_dagster.datatypes import is_temporal
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.node import Bounds
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.query import BoundQuery

IN_ANY_ORDER = ("COUNT", "SUM", "AVG", "MIN", "MAX")
"""Aggregates whose value does not depend on the order of the rows."""


def closed_windows(query: BoundQuery) -> Bounds | None:
    """The columns with the bounds of the windows, if each row of a query is an aggregate of one closed window, whose
    value depends on the records of that window only; else None."""
    windows = query.root.input.windows
    return windows[0] if windows and _window(query) is not None else None


def reach_millis(query: BoundQuery, column: str) -> int | None:
    """How far before a value of a table's column the records of its row may be in event time, milliseconds: 0 for a
    row of one record; None if any record may be among them, as for sessions by their end."""
    window, bounds = _window(query), closed_windows(query)
    if window is None or bounds is None:
        return 0
    is_session, is_start = window.function == "SESSION", column == bounds.start
    if is_start:  # a session that begins in time has no record in the gap before
        return window.size_millis if is_session else 0
    return None if is_session else window.size_millis


def reach_after_millis(query: BoundQuery, column: str) -> int | None:
    """How far after a value of a table's column the records of its row may be in event time, milliseconds: 0 for a row
    of one record, and for windows by their end; None for sessions by their start."""
    window, bounds = _window(query), closed_windows(query)
    if window is None or bounds is None or column != bounds.start:
        return 0
    return None if window.function == "SESSION" else window.size_millis


def _window(query: BoundQuery) -> Window | None:
    stateful = [node for node in query.plan.walk() if node.is_stateful]
    aggregate = stateful[0] if len(stateful) == 1 else None
    if not isinstance(aggregate, Aggregate) or not aggregate.is_final:
        return None
    in_any_order = all(call.function in IN_ANY_ORDER and call.order is None for call in aggregate.calls)
    return aggregate.window if isinstance(aggregate.window, Window) and in_any_order else None


def why_not_recomputed(query: BoundQuery) -> str:
    """Why the rows of a query cannot be computed again for a range; empty if each row depends on one record or one
    closed window only, whenever it is computed."""
    is_windowed = closed_windows(query) is not None
    stateful = [] if is_windowed else sorted({type(n).__name__ for n in query.plan.walk() if n.is_stateful})
    sink = query.sink
    reasons = {
        f"it is a {sink.kind.replace('_', ' ')}; only ranges of tables can be replaced": sink.kind != "table",
        "an application fills it with other sinks": query.is_application,
        "its statement declares it: other queries may write it too": sink.declared,
        "every load replaces all of it": query.refresh == "full",
        "its rows are updated by key": query.root.changelog != "append" and not is_windowed,
        f"its rows depend on earlier rows ({', '.join(stateful)})": bool(stateful),
        "it looks up tables, whose rows may have changed": bool(query.tables),
        "it calls a function with another value each time": not query.plan.is_repeatable,
        "it writes a row log, which would have its rows twice": bool(query.logs),
        "it reads more than one source": len(query.scans) != 1,
        "it reads a changelog": any(scan.relation.kind != "stream" for scan in query.scans),
        "it reads the metadata of records (rowmetadata)": any(scan.reading.has_metadata for scan in query.scans),
    }
    return next((text for text, holds in reasons.items() if holds), "")


def range_columns(query: BoundQuery) -> tuple[str, ...]:
    """The columns of its table that can have a range: those of a TIMESTAMP type; of windows only their bounds, the
    start first."""
    names = [column.name for column in query.sink.columns if is_temporal(column.type)]
    bounds = closed_windows(query)
    return tuple(names if bounds is None else (name for name in bounds if name in names))


def why_not_by(query: BoundQuery, column: str) -> str:
    """Why its table has no range of ``column`` (empty: its only column of a TIMESTAMP type, or the start of its
    windows); empty if it has."""
    moments, is_windowed = range_columns(query), closed_windows(query) is not None
    if column and column not in moments:
        kind = "the bounds of its windows" if is_windowed else "its columns of a TIMESTAMP type"
        return f"{column} is not one of {kind} ({', '.join(moments) or 'none'})"
    if not column and (len(moments) != 1 if not is_windowed else not moments):
        return f"it has {len(moments)} columns of a TIMESTAMP type: name one (--by; in @partitions: by)"
    return ""
