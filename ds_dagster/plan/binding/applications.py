"""Queries of one application → one query: one scan per source, all sinks under one root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType

from ds_dagster.catalog.row_log import log_name
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.checks.row_errors import ignores_row_errors, may_fail
from ds_dagster.plan.identity.fingerprint import combined, earlier_signatures, state_signature
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.application import Bundle, Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, Fold
from ds_dagster.plan.nodes.node import N, Node
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.plan.state_store import STATE_STORE, check_state_store, chosen_store, pinned_store
from ds_dagster.sql.statements import Application

WITH_OF: Mapping[str, str] = MappingProxyType(
    {
        "time": "event time (timestamp, source.allow.latency.millis or source.idle.timeout.millis)",
        "starting_position": "starting.position",
        "starting_timestamp": "starting.timestamp",
        "starting_offsets": "starting.offsets",
        "bad_records": "source.deserialization.error.handling",
        "max_records_per_batch": "max.records.per.batch",
        "data_loss": "source.data.loss",
        "slot": "postgresql.slot.name",
        "log": "source.deserialization.error.log.topic",
    }
)
"""Field of a scan → properties that set it, for messages."""
_MERGED = frozenset({"columns", "rowtime", "record_fields"})


def together(
    statement: Application, parts: Sequence[Part], spans: Mapping[str, Span], store_kinds: Mapping[str, str]
) -> BoundQuery:
    """The one query of an application.

    Args:
        statement: of the application.
        parts: of its queries, each bound on its own, in the order of the statements.
        spans: query name → its position in the file.
        store_kinds: folded store name → kind.

    Raises:
        UserError: APPLICATION_SOURCE_DIFFERS, APPLICATION_ROW_ERRORS, APPLICATION_STATE_SHARED, APPLICATION_POOLS,
            APPLICATION_STATE_STORES, STATE_STORE_WITHOUT_STATE, STATE_STORE_NEEDS_DISK.
        UnsupportedError: APPLICATION_OUTPUT_MODES, APPLICATION_TABLE_FINITE.
    """
    name = str(statement.name)
    for part in parts:
        if part.is_finite:
            span = part.sink.span
            raise error("APPLICATION_TABLE_FINITE", span=span, relation=part.sink.name.name, name=name)
    scans = _scans(name, parts, spans)
    merged = [replace(part, root=_sink(part.root, scans)) for part in parts]
    merged = _one_output_mode(name, merged, spans)
    merged = _one_state(merged, statement)
    _check_row_errors(merged, spans)
    _check_pools(merged, spans)
    plan, chosen = Bundle(tuple(part.root for part in merged)), _state_store(merged, spans)
    check_state_store(plan, chosen, statement.name.span)
    pinned = pinned_store(plan, chosen)
    earlier = zip(
        *(earlier_signatures(part.root, store_kinds=store_kinds, state_store=pinned) for part in merged), strict=True
    )
    names = [part.name for part in merged]
    signatures = [state_signature(part.root, store_kinds=store_kinds, state_store=pinned) for part in merged]
    return BoundQuery(
        name=name,
        statement=statement,
        parts=tuple(merged),
        fingerprint=combined([(part.name, part.fingerprint) for part in merged]),
        state_signature=combined(list(zip(names, signatures, strict=True))),
        earlier_signatures=tuple(combined(list(zip(names, versions, strict=True))) for versions in earlier),
    )


# one way to read each source


def _scans(name: str, parts: Iterable[Part], spans: Mapping[str, Span]) -> Mapping[str, Scan]:
    """Source name → one scan with all fields that the queries need, also those that a query needs besides a virtual
    relation over the same source."""
    scans: dict[str, Scan] = {}
    for part in parts:
        for scan in (node for node in part.root.walk() if isinstance(node, Scan)):
            first = scans.setdefault(scan.source_name, scan)
            if first != scan:
                scans[scan.source_name] = _both(name, first, scan, spans[part.name])
    return scans


def _both(name: str, first: Scan, second: Scan, span: Span) -> Scan:
    settings = (f.name for f in fields(Scan) if f.compare and f.name not in _MERGED)
    other = next((name for name in settings if not _same(first, second, name)), None)
    if other is not None:
        relation, what = first.relation.name.name, WITH_OF.get(other, other)
        raise error("APPLICATION_SOURCE_DIFFERS", span=span, name=name, relation=relation, what=what)
    columns = None
    if first.columns is not None and second.columns is not None:
        names = {*first.columns, *second.columns}
        columns = tuple(c.name for c in first.relation.columns if c.name in names)
        columns = None if len(columns) == len(first.relation.columns) else columns
    beside = dict.fromkeys((*first.record_fields, *second.record_fields))
    return replace(
        first, columns=columns, rowtime=first.rowtime or second.rowtime, record_fields=tuple(sorted(beside, key=str))
    )


def _same(first: Scan, second: Scan, name: str) -> bool:
    """Whether two scans have an equal field; logs are equal if they have one name."""
    if name == "log" and first.log is not None and second.log is not None:
        return log_name(first.log) == log_name(second.log)
    return bool(getattr(first, name) == getattr(second, name))


def _sink(root: Sink, scans: Mapping[str, Scan]) -> Sink:
    return _replaced_below(root, lambda node: scans[node.source_name] if isinstance(node, Scan) else None)


def _replaced_below(node: N, other: Callable[[Node], Node | None]) -> N:
    """A copy of the node in which each node below is replaced by ``other(node)`` if that is not None."""
    return node.with_inputs(lambda below: other(below) or _replaced_below(below, other))


# one output mode


def _one_output_mode(name: str, parts: list[Part], spans: Mapping[str, Span]) -> list[Part]:
    """Refined groups need Spark's update mode, all other state needs append mode, and a job has one mode: next to other
    state such groups count weights.

    Raises:
        UnsupportedError: APPLICATION_OUTPUT_MODES.
    """
    refined = [part for part in parts if any(map(_is_refined, part.root.walk()))]
    stateful = [part for part in parts if any(node.is_stateful for node in part.root.walk())]
    if not refined or len(stateful) == 1:
        return parts
    windowed = next((p for p in refined if any(_is_refined(n) and n.window for n in _aggregates(p))), None)
    if windowed is not None:
        span = spans[windowed.name]
        raise error("APPLICATION_OUTPUT_MODES", span=span, relation=windowed.sink.name.name, name=name)
    return [replace(part, root=_with_weights(part.root)) if part in refined else part for part in parts]


def _aggregates(part: Part) -> list[Aggregate]:
    return [node for node in part.root.walk() if isinstance(node, Aggregate)]


def _is_refined(node: Node) -> bool:
    return isinstance(node, Aggregate) and not node.is_final


def _with_weights(root: Sink) -> Sink:
    return _replaced_below(root, _counting_weights)


def _counting_weights(node: Node) -> Node | None:
    if not isinstance(node, Aggregate) or node.is_final:
        return None
    return DeltaAggregate(weighted(node.input), node.group, node.calls)


# one way to fail


def _check_row_errors(parts: Iterable[Part], spans: Mapping[str, Span]) -> None:
    """Rows that are computed once for several queries are left out once, so these queries need one setting and one
    error log.

    Raises:
        UserError: APPLICATION_ROW_ERRORS.
    """
    first: dict[str, Part] = {}
    for part in parts:
        for node in part.root.walk():
            if not isinstance(node, Virtual) or not may_fail(node):
                continue
            other = first.setdefault(node.name, part)
            if _on_error(other) != _on_error(part):
                names = [query.sink.name.name for query in (other, part)]
                shown = node.name.rpartition(".")[2]
                raise error("APPLICATION_ROW_ERRORS", span=spans[part.name], relation=shown, queries=names)


def _check_pools(parts: Sequence[Part], spans: Mapping[str, Span]) -> None:
    """One engine runs an application.

    Raises:
        UserError: APPLICATION_POOLS.
    """
    first = parts[0]
    for part in parts:
        if part.pool != first.pool:
            names = [query.sink.name.name for query in (first, part)]
            raise error("APPLICATION_POOLS", span=spans[part.name], queries=names)


def _state_store(parts: Sequence[Part], spans: Mapping[str, Span]) -> str:
    """The store that the queries name for their state, empty if none does.

    Raises:
        UserError: APPLICATION_STATE_STORES.
    """
    chosen = [part for part in parts if STATE_STORE in part.settings]
    for part in chosen[1:]:
        if part.settings[STATE_STORE] != chosen[0].settings[STATE_STORE]:
            names = [query.sink.name.name for query in (chosen[0], part)]
            raise error("APPLICATION_STATE_STORES", span=spans[part.name], queries=names)
    return chosen_store(*chosen)


def _on_error(part: Part) -> tuple[bool, str]:
    log = part.error_log
    return ignores_row_errors(part.settings), "" if log is None else log_name(log)


# one state


def _one_state(parts: list[Part], statement: Application) -> list[Part]:
    """The queries, changed so that a virtual relation with state is one equal node wherever it is read.

    If one of them needs its rows with weights, all of them read weights, and those that need none fold them.

    Raises:
        UserError: APPLICATION_STATE_SHARED.
    """
    for _ in range(sum(isinstance(node, Virtual) for part in parts for node in part.root.walk()) + 1):
        differing = _differing(parts)
        if not differing:
            return parts
        parts = [replace(part, root=_folding(part.root, differing)) for part in parts]
    raise error("APPLICATION_STATE_SHARED", span=statement.name.span, relation=min(differing))


def _differing(parts: Iterable[Part]) -> frozenset[str]:
    """Names of virtual relations with state whose nodes are not all equal."""
    virtuals: dict[str, Virtual] = {}
    differing: set[str] = set()
    for node in (node for part in parts for node in part.root.walk()):
        if isinstance(node, Virtual) and virtuals.setdefault(node.name, node) != node and not node.is_plain:
            differing.add(node.name)
    return frozenset(differing)


def _folding(root: Sink, names: frozenset[str]) -> Sink:
    def folded(node: Node) -> Node | None:
        if not isinstance(node, Virtual) or node.name not in names or node.changelog != "upsert" or node.is_final:
            return None
        return Fold(weighted(node), node.key)

    return _replaced_below(root, folded)
