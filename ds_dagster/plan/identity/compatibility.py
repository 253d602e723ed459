"""Whether a changed query may keep its checkpoint: a pure function over two bound queries, with a table of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.names import QualifiedName
from ds_dagster.plan.identity.held import adds_results, hides_results
from ds_dagster.plan.identity.integer_widths import differ_in_widths_alone
from ds_dagster.plan.identity.state_order import shows_otherwise
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.relation_shapes import Shape, columns_shape
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.state_store import PLACES, cannot_move, moves_state, state_store

Verdict = Literal["new", "unchanged", "keeps_checkpoint", "needs_new_checkpoint", "would_lose_data"]


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The effect of a new definition on the job that runs the old one.

    Attributes:
        name, relation: of the query.
        verdict: ``new`` there is no old one; ``unchanged`` nothing to do; ``keeps_checkpoint`` a restart continues
            where the old query stopped; ``needs_new_checkpoint`` the query has to read its sources again from their
            starting position; ``would_lose_data`` likewise, but it would not read earlier records again.
        rule: the rule that applied, in words.
        hint: what to do, empty for ``new`` and ``unchanged``.
    """

    name: str
    relation: str
    verdict: Verdict
    rule: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason why a checkpoint cannot be kept; the first that applies names the change."""

    text: str
    applies: Callable[[BoundQuery, BoundQuery], bool]


def _sources(query: BoundQuery) -> list[tuple[str, str, str]]:
    return [(scan.source_name, scan.relation.store, scan.relation.entity) for scan in query.scans]


def _positions(query: BoundQuery) -> list[Shape]:
    return [scan.start for scan in query.scans]


def _slots(query: BoundQuery) -> list[str]:
    return [scan.slot for scan in query.scans]


def _sink(query: BoundQuery) -> list[tuple[QualifiedName, str, str]]:
    return [(sink.name, sink.store, sink.entity) for sink in query.sinks]


def _tables(query: BoundQuery) -> list[Shape]:
    """Columns of the tables the query creates: rows are added to the table that exists, with its earlier columns."""
    tables = [sink for sink in query.sinks if sink.kind in ("materialized_view", "table") and not sink.declared]
    return [columns_shape(table) for table in tables]


def _is_full(query: BoundQuery) -> bool:
    """Whether each load starts over; the other modes differ only in when they end."""
    return query.refresh == "full"


def _keys(query: BoundQuery) -> list[tuple[str, tuple[str, ...]]]:
    return [(part.root.changelog, tuple(part.root.key)) for part in query.parts]


def _steps(query: BoundQuery) -> list[str]:
    return [type(node).__name__ for node in query.plan.walk() if node.is_stateful]


PLACE = Rule("it writes to another relation or entity", lambda old, new: _sink(old) != _sink(new))
RULES: tuple[Rule, ...] = (
    Rule("it reads other sources", lambda old, new: _sources(old) != _sources(new)),
    PLACE,
    Rule("the columns of its table changed", lambda old, new: _tables(old) != _tables(new)),
    Rule("it loads in another mode (refresh.mode)", lambda old, new: _is_full(old) != _is_full(new)),
    Rule("the starting position of a source changed", lambda old, new: _positions(old) != _positions(new)),
    Rule("the replication slot of a source changed", lambda old, new: _slots(old) != _slots(new)),
    Rule("the key of the result changed", lambda old, new: _keys(old) != _keys(new)),
    Rule(
        "an earlier version of ds-dagster made its checkpoint, with the results in the order of the SELECT list",
        shows_otherwise,
    ),
    Rule("an aggregate is added, and the groups of its state have no place for it", adds_results),
    Rule("its joins or aggregates changed", lambda old, new: _steps(old) != _steps(new)),
    Rule("its state is kept in another store (state.store), and only groups of one GROUP BY can move", cannot_move),
    Rule(
        "a step that keeps rows computes something else, or over other rows",
        lambda old, new: old.state_signature != new.state_signature and not differ_in_widths_alone(old, new),
    ),
)
"""Reasons for a new checkpoint, the most specific first. Other changes keep the checkpoint: projections, and filters
above the stateful steps or in a plan without any, take effect from the next record on. Filters whose rows a step
retracts later are part of its state."""

STATELESS = "only stateless parts changed, or how sources are read"
HELD = "results of its aggregate that it does not show are still computed, so its state stays as it is"
WIDTHS = "whole numbers below its totals have another width, but counts, sums and averages are kept in the widest type"
REPEATED = "it runs in real-time mode: rows since its last checkpoint may be written again (at least once)"
_HINTS: dict[Verdict, str] = {
    "keeps_checkpoint": "`restart` continues where it stopped; rows that it has written stay as they are",
    "needs_new_checkpoint": "`reset` starts over and reads the sources again from their starting position",
    "would_lose_data": "`reset` starts over, but reads only new records: 'starting.position' is latest",
}


def verdict(old: BoundQuery | None, new: BoundQuery) -> Compatibility:
    """Compare the definition that runs (None: none does) with the new one."""
    name, relation = new.name, new.relations
    if old is None:
        return Compatibility(name, relation, "new", "it was never started")
    if old.fingerprint == new.fingerprint and old.state_signature == new.state_signature:
        return Compatibility(name, relation, "unchanged", "the definitions are equal")
    fired = next((rule for rule in RULES if rule.applies(old, new)), None)
    if fired is None:
        rule = HELD if hides_results(new) or hides_results(old) else STATELESS
        rule = rule if old.state_signature == new.state_signature else WIDTHS
        rule = _moved(new, rule) if moves_state(old, new) else rule
        return Compatibility(name, relation, "keeps_checkpoint", rule, _going_on(old))
    outcome: Verdict = "would_lose_data" if _cannot_replay(new.plan) else "needs_new_checkpoint"
    return Compatibility(name, relation, outcome, fired.text, _HINTS[outcome])


def _moved(new: BoundQuery, rule: str) -> str:
    """The rule of a change that also moves the state."""
    store = state_store(new)
    moved = f"its groups move, and are kept {PLACES[store]}" if store else ""
    return moved if rule == STATELESS else f"{moved}; {rule}"


def _going_on(old: BoundQuery) -> str:
    """How a restart goes on."""
    if realtime_millis(old.sink) is None:
        return _HINTS["keeps_checkpoint"]
    return f"{_HINTS['keeps_checkpoint']}; {REPEATED}"


def why_not_renamed(old: BoundQuery, new: BoundQuery) -> str:
    """The rule by which a query cannot continue with the checkpoint of a query with another name, whatever it writes
    to; empty if it can."""
    if old.is_application or new.is_application:
        return "the checkpoint of an application has other names"
    return next((rule.text for rule in RULES if rule is not PLACE and rule.applies(old, new)), "")


def _cannot_replay(root: Node) -> bool:
    return any(isinstance(node, Scan) and node.starting_position == "latest" for node in root.walk())
