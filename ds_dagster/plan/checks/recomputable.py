"""Whether the rows of a query can be computed again for a range of time: reasons why not, as texts."""

from __future__ import annotations

from ds_dagster.datatypes import is_temporal
from ds_dagster.plan.query import BoundQuery


def why_not_recomputed(query: BoundQuery) -> str:
    """Why the rows of a query do not each come from one record alone, whenever they are computed; empty where they
    do."""
    stateful = sorted({type(node).__name__ for node in query.plan.walk() if node.is_stateful})
    sink = query.sink
    reasons = {
        f"it is a {sink.kind.replace('_', ' ')}; ranges of tables are replaced": sink.kind != "table",
        "an application fills it with other sinks": query.is_application,
        "its statement declares it: other queries may write it too": sink.declared,
        "every load replaces all of it": query.refresh == "full",
        "its rows are updated by key": query.root.changelog != "append",
        f"rows depend on others before them ({', '.join(stateful)})": bool(stateful),
        "it looks up tables, whose rows have changed since": bool(query.tables),
        "a function of it gives another value each time": not query.plan.is_repeatable,
        "it writes a row log, which would have its rows twice": bool(query.logs),
        "it reads more than one source": len(query.scans) != 1,
        "it reads a changelog": any(scan.relation.kind != "stream" for scan in query.scans),
        "it reads what a store knows of a record (rowmetadata)": any(scan.reading.has_metadata for scan in query.scans),
    }
    return next((text for text, holds in reasons.items() if holds), "")


def range_columns(query: BoundQuery) -> tuple[str, ...]:
    """The columns of its table that a range may be of."""
    return tuple(column.name for column in query.sink.columns if is_temporal(column.type))


def why_not_by(query: BoundQuery, column: str) -> str:
    """Why a range of its table is not of a column, or of the only one of a TIMESTAMP type where it is empty."""
    moments = range_columns(query)
    if column and column not in moments:
        return f"{column} is not one of its columns of a TIMESTAMP type ({', '.join(moments) or 'none'})"
    if not column and len(moments) != 1:
        return f"it has {len(moments)} columns of a TIMESTAMP type: name one (--by; in @partitions: by)"
    return ""
