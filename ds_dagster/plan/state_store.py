"""Where a query keeps its state: in a map on the heap, or in RocksDB on disk (``'state.store'``).

Our operators need RocksDB. Spark's own work with both: the heap is faster for few groups, RocksDB keeps more groups
than memory has room for. A query has one store for all its steps, since Spark sets it for a whole job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

from ds_dagster.catalog.properties.state_store import NAME
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.weights import has_weights
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.nodes.window_join import WindowExtreme, WindowJoin
from ds_dagster.plan.query import BoundQuery, Part

StateStore: TypeAlias = Literal["heap", "rocksdb"]
STATE_STORE = NAME
"""Property of QUERY WITH."""
PLACES: Mapping[StateStore, str] = MappingProxyType({"heap": "on the heap", "rocksdb": "in RocksDB, on disk"})
"""Store → where the state is, in words."""
OWN: Mapping[type[Node], str] = MappingProxyType(
    {
        TemporalJoin: "a join with the versions of a changelog",
        Match: "MATCH_RECOGNIZE",
        WindowJoin: "a join of windows",
        WindowExtreme: "the greatest or least rows of a window",
        Over: "OVER",
    }
)
"""Node whose state one of our operators always keeps → how a statement calls it."""


def state_store(query: BoundQuery) -> StateStore | None:
    """Where a query keeps its state; None without state."""
    return store_of(query.plan, chosen_store(*query.parts))


def store_of(plan: Node, chosen: str = "") -> StateStore | None:
    """Where a plan keeps its state; None without state. ``chosen``: the value of the property, empty without it."""
    if not has_state(plan):
        return None
    if chosen:
        return cast("StateStore", chosen)
    return "rocksdb" if why_rocksdb(plan) else "heap"


def chosen_store(*parts: Part) -> str:
    """The store that the statements of a query name; empty if none does."""
    return next((str(part.settings[STATE_STORE]) for part in parts if STATE_STORE in part.settings), "")


def has_state(plan: Node) -> bool:
    """Whether a step keeps state."""
    return any(node.is_stateful for node in plan.walk())


def why_rocksdb(plan: Node) -> str:
    """The step that needs RocksDB, as a statement calls it; empty if all state is that of Spark's own operators."""
    step = next((OWN[type(node)] for node in plan.walk() if node.is_stateful and type(node) in OWN), "")
    if step:
        return step
    if has_weights(plan):
        return "a step that reads or writes a changelog with retractions"
    return "a join WITHIN a time" if own_joins(plan) else ""


def own_joins(root: Node) -> tuple[IntervalJoin, ...]:
    """The interval joins of a plan that use our operator: no step above needs their event time, and there are no
    conditions besides the keys (those of INNER are a filter above)."""
    joins = [node for node in root.walk() if isinstance(node, IntervalJoin)]
    timed = list(_timed(root, asks_time=False)) if joins else []
    return tuple(node for node in joins if node not in timed and (node.kind == "inner" or node.residual is None))


def _timed(node: Node, *, asks_time: bool) -> Iterator[IntervalJoin]:
    if asks_time and isinstance(node, IntervalJoin):
        yield node
    below = node.asks_time or (asks_time and node.passes_time)
    for child in node.inputs:
        yield from _timed(child, asks_time=below)


# the change of a store


def may_move(plan: Node) -> bool:
    """Whether the state can be copied into the other store: that of one GROUP BY, a row for each group. Sessions and
    other steps keep several rows for each key, in forms of their own."""
    stateful = [node for node in plan.walk() if node.is_stateful]
    has_sessions = any(isinstance(node, Window) and node.function == "SESSION" for node in plan.walk())
    return len(stateful) == 1 and isinstance(stateful[0], Aggregate) and not has_sessions and not why_rocksdb(plan)


def is_chosen(plan: Node, chosen: str) -> bool:
    """Whether the property gives a plan another store than it would have without it."""
    return store_of(plan, chosen) != store_of(plan)


def pinned_store(plan: Node, chosen: str) -> str:
    """The store that belongs to the content of a checkpoint, since the state cannot move; empty for the store that the
    plan has without the property, and for state that can move."""
    return chosen if is_chosen(plan, chosen) and not may_move(plan) else ""


def moves_state(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether two definitions keep their state in different stores."""
    return state_store(old) != state_store(new)


def cannot_move(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether the state would have to move and cannot."""
    return moves_state(old, new) and not (may_move(old.plan) and may_move(new.plan))


def check_state_store(plan: Node, chosen: str, span: Span) -> None:
    """Refuse a store that has no meaning.

    Raises:
        UserError: STATE_STORE_WITHOUT_STATE, STATE_STORE_NEEDS_DISK.
    """
    if not chosen:
        return
    if not has_state(plan):
        raise error("STATE_STORE_WITHOUT_STATE", span=span)
    step = why_rocksdb(plan)
    if chosen == "heap" and step:
        raise error("STATE_STORE_NEEDS_DISK", span=span, step=step)
