"""Whether the rows of a query can be computed again for a range of time: reasons why not, as texts."""

from __future__ import annotations

from ds_dagster.datatypes import is_temporal
from ds_dagster.plan.query import BoundQuery


def why_not_recomputed(query: BoundQuery) -> str:
    """Why the rows of a query cannot be computed again for a range; empty if each row depends on one record only,
    whenever it is computed."""
    stateful = sorted({type(node).__name__ for node in query.plan.walk() if node.is_stateful})
    sink = query.sink
    reasons = {
        f"it is a {sink.kind.replace('_', ' ')}; only ranges of tables can be replaced": sink.kind != "table",
        "an application fills it with other sinks": query.is_application,
        "its statement declares it: other queries may write it too": sink.declared,
        "every load replaces all of it": query.refresh == "full",
        "its rows are updated by key": query.root.changelog != "append",
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
    """The columns of its table that can have a range: those of a TIMESTAMP type."""
    return tuple(column.name for column in query.sink.columns if is_temporal(column.type))


def why_not_by(query: BoundQuery, column: str) -> str:
    """Why its table has no range of ``column`` (empty: its only column of a TIMESTAMP type); empty if it has."""
    moments = range_columns(query)
    if column and column not in moments:
        return f"{column} is not one of its columns of a TIMESTAMP type ({', '.join(moments) or 'none'})"
    if not column and len(moments) != 1:
        return f"it has {len(moments)} columns of a TIMESTAMP type: name one (--by; in @partitions: by)"
    return ""
