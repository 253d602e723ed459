"""Settings of temporal joins are refused if no temporal join reads them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.nodes.join import TemporalJoin
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.sql.expressions import RelationRef, WindowRef
from ds_dagster.sql.statements import Property

PREFIX = "temporal.join."


def is_temporal(joined: Node) -> bool:
    """Whether a bound join is a temporal join, maybe with the filter of an INNER JOIN above it."""
    return isinstance(joined.input if isinstance(joined, Filter) else joined, TemporalJoin)


def check_temporal_settings(source: exp.Expression, *, is_right_side: bool) -> None:
    """Check WITH after one source.

    Args:
        source: of FROM or JOIN.
        is_right_side: it is the changelog of a temporal join.

    Raises:
        UserError: TEMPORAL_SETTING_UNUSED.
    """
    written = [source, source.this] if isinstance(source, WindowRef) else [source]
    properties = (
        item
        for node in written
        if isinstance(node, RelationRef | WindowRef)
        for item in node.args.get("properties") or ()
    )
    problem = None if is_right_side else _unused(properties)
    if problem is not None:
        raise problem


def unused_temporal_setting(properties: Iterable[Property], plan: Node, statement: Span) -> DsError | None:
    """TEMPORAL_SETTING_UNUSED for QUERY WITH of a plan without a temporal join, else None. Properties of END
    APPLICATION are not checked: they are for those of its queries that have one."""
    has_join = any(isinstance(node, TemporalJoin) for node in plan.walk())
    last = (statement.end_line or statement.line, statement.end_column or statement.column)
    return None if has_join else _unused(item for item in properties if (item.span.line, item.span.column) <= last)


def _unused(properties: Iterable[Property]) -> DsError | None:
    setting = next((item for item in properties if item.name.startswith(PREFIX)), None)
    return None if setting is None else error("TEMPORAL_SETTING_UNUSED", span=setting.span, name=setting.name)
