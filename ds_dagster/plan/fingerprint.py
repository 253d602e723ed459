"""Stable hashes of a plan: its meaning (fingerprint) and what a checkpoint depends on (state signature).

Both are made of positions and types, never of names that only the text knows: aliases, formatting, comments, the
order of properties and connection properties of stores change nothing. A change of the algorithm is a new version
prefix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.delta_nodes import DeltaAggregate, DeltaJoin, Fold, Weigh
from ds_dagster.plan.match_node import Match
from ds_dagster.plan.nodes import (
    Aggregate,
    BoundExpression,
    Filter,
    IntervalJoin,
    Node,
    Project,
    Scan,
    Sink,
    TemporalJoin,
    Window,
)
from ds_dagster.plan.pattern import pattern_text, variables
from ds_dagster.plan.printing import expression_text

FINGERPRINT_VERSION = "v1"
STATE_VERSION = "s1"
"""Changes when operators of this package lay their state out in another way."""

Shape = list[object]
NOTHING: Mapping[str, str] = MappingProxyType({})
StoreKinds = Mapping[str, str]


def fingerprint(root: Sink, *, refresh: str, settings: Mapping[str, object], store_kinds: StoreKinds) -> str:
    """Hash of everything that decides which rows the query writes, and where.

    Args:
        root: plan after rewriting.
        refresh: continuous, incremental or full.
        settings: QUERY WITH without the query's name.
        store_kinds: folded store name → kind.
    """
    meaning = [
        _sink(root.relation, store_kinds),
        _Shaper(root.input, store_kinds).columns(root),
        _shape(root.input, store_kinds),
    ]
    return _hash(FINGERPRINT_VERSION, [refresh, sorted(settings.items()), meaning])


def state_signature(root: Sink, *, store_kinds: StoreKinds) -> str:
    """Hash of what a checkpoint holds: sources with their positions, stateful steps with the types they keep, and for
    aggregates everything below (their state is a result already)."""
    parts: Shape = [
        [scan.source_name, *_entity(scan.relation, store_kinds), *_start(scan), *_slot(scan)] for scan in _scans(root)
    ]
    parts += [_state(node, store_kinds) for node in root.walk() if node.is_stateful]
    return _hash(STATE_VERSION, [parts, _sink_state(root)])


def _hash(version: str, shape: Shape) -> str:
    text = json.dumps(shape, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{version}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _slot(scan: Scan) -> Shape:
    """Where no slot is named nothing is added, so that other sources keep their hashes."""
    return [scan.slot] if scan.slot else []


def _scans(root: Node) -> list[Scan]:
    return [node for node in root.walk() if isinstance(node, Scan)]


def _sink_state(root: Sink) -> Shape:
    """What a sink's checkpoint depends on: whether rows replace one another, and by what."""
    return [root.changelog, list(root.key)]


def _entity(relation: Relation, store_kinds: StoreKinds) -> Shape:
    return [relation.store, store_kinds.get(relation.store, ""), relation.entity]


def _columns(relation: Relation, names: frozenset[str] | None = None) -> Shape:
    return [[c.name, str(c.type), c.nullable] for c in relation.columns if names is None or c.name in names]


def _records(relation: Relation) -> Shape:
    key = relation.key
    messages = [one.message if one else "" for one in (relation.value_descriptor, relation.key_descriptor)]
    return [
        relation.value_format,
        [key.format, list(key.columns), str(key.type) if key.type else None, list(key.exclude)],
        list(relation.primary_key),
        *(messages if any(messages) else ()),
    ]


_IN_THE_RECORD = frozenset(
    (
        "store",
        "topic",
        "value.format",
        "key.format",
        "key.type",
        "key.columns",
        "value.columns.exclude",
        "timestamp",
        "timestamp.format",
        "starting.position",
        "starting.timestamp",
        "enable.upsert.mode",
        "description",
    )
)
"""Properties whose meaning is a field of the relation already, written or not; and those without one."""


def _sink(relation: Relation, store_kinds: StoreKinds) -> Shape:
    values = sorted(
        (name, value.value)
        for name, value in relation.properties.items()
        if name not in _IN_THE_RECORD and not value.secret
    )
    time = [relation.event_time.column, relation.event_time.format]
    entity = _entity(relation, store_kinds)
    return [str(relation.name), relation.kind, entity, _columns(relation), _records(relation), time, values]


def _shape(node: Node, store_kinds: StoreKinds) -> Shape:
    return _Shaper(node, store_kinds).shape()


class _Shaper:
    """One node as nested lists, columns by their position in the inputs."""

    def __init__(self, node: Node, store_kinds: StoreKinds) -> None:
        self.node = node
        self.store_kinds = store_kinds
        self._positions: dict[str, str] | None = None

    def shape(self) -> Shape:
        """The node and all below."""
        own = SHAPES[type(self.node)](self, self.node)
        return [type(self.node).__name__, own, [_shape(child, self.store_kinds) for child in self.node.inputs]]

    def columns(self, root: Sink) -> Shape:
        """Which field each sink column is."""
        positions = {field.name: index for index, field in enumerate(root.input.output)}
        return [positions[name] for name in root.columns]

    def text(self, expression: BoundExpression | None, own: Mapping[str, str] = NOTHING) -> object:
        """An expression with its type. ``own``: names that are no fields of an input, and what stands for them."""
        if expression is None:
            return None
        position = (lambda name: own.get(name) or self._position(name)) if own else self._position
        return [expression_text(expression.tree, position, strict=True), str(expression.type)]

    def _position(self, name: str) -> str:
        if self._positions is None:
            fields = [field for child in self.node.inputs for field in child.output]
            self._positions = {field.name: f"#{index}" for index, field in enumerate(fields)}
        return self._positions[name]


def _scan(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Scan)
    relation = node.relation
    time = node.time
    column = None if time.column is None else time.column.removeprefix(f"{node.alias}$")
    names = frozenset(c.name for c in node.read_columns)
    return [
        _entity(relation, shaper.store_kinds),
        relation.kind,
        _columns(relation, names),
        _records(relation),
        [column, time.format, time.lateness_millis, time.idle_millis],
        [node.starting_position, node.bad_records, node.max_records_per_batch, node.rowtime, *_start(node)[1:]]
        + (["skip"] if node.data_loss == "skip" else [])
        + _slot(node)
        + [field.name.partition("$")[2] for field in node.record_fields],
    ]


def _start(node: Scan) -> Shape:
    """The position, and the moment where there is one."""
    return [node.starting_position, *([] if node.starting_timestamp is None else [node.starting_timestamp])]


def _filter(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Filter)
    return [shaper.text(node.condition)]


def _project(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Project)
    names = [named.name for named in node.columns]
    return [[shaper.text(named.expression) for named in node.columns], [names.index(key) for key in node.key_names]]


def _window(_shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Window)
    return [node.function, node.size_millis, *([node.step_millis] if node.step_millis else [])]


def _groups_and_calls(shaper: _Shaper, node: Aggregate | DeltaAggregate) -> Shape:
    calls = [[c.function, shaper.text(c.argument), shaper.text(c.filter), c.distinct, str(c.type)] for c in node.calls]
    return [[shaper.text(named.expression) for named in node.group], calls]


def _aggregate(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Aggregate)
    return [*_groups_and_calls(shaper, node), node.updates, node.window is not None]


def _join(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, IntervalJoin | TemporalJoin)
    options: Shape = [node.within_millis] if isinstance(node, IntervalJoin) else [node.immediate, node.retention_millis]
    return [node.kind, shaper.text(node.left_key), shaper.text(node.right_key), options]


def _weigh(_shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Weigh)
    return [node.is_stateful]


def _delta_aggregate(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, DeltaAggregate)
    return [*_groups_and_calls(shaper, node), node.weighted]


def _delta_join(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, DeltaJoin)
    keys = zip(node.left_keys, node.right_keys, strict=True)
    return [node.kind, [[shaper.text(left), shaper.text(right)] for left, right in keys]]


def _fold(_shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Fold)
    positions = [field.name for field in node.output]
    return [[positions.index(name) for name in node.key_names]]


def _match(shaper: _Shaper, node: Node) -> Shape:
    """Variables and values by their numbers: what they are called means nothing."""
    assert isinstance(node, Match)
    names = {name: f"v{index}" for index, name in enumerate(variables(node.pattern))} | {"": ""}
    values = {value.name: f"@{index}" for index, value in enumerate(node.values)}
    return [
        [shaper.text(named.expression) for named in node.partition],
        [[shaper.text(one.expression), one.descending] for one in node.order],
        pattern_text(node.pattern, names),
        [[names[one.variable], shaper.text(one.condition, values)] for one in node.definitions],
        [node.skip, names[node.skip_variable], node.within_millis, *([node.ttl_millis] if node.ttl_millis else [])],
        [[v.function, names[v.variable], shaper.text(v.argument), v.offset, str(v.type)] for v in node.values],
        [shaper.text(named.expression, values) for named in node.measures],
    ]


SHAPES: dict[type[Node], Callable[[_Shaper, Node], Shape]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Window: _window,
    Aggregate: _aggregate,
    IntervalJoin: _join,
    TemporalJoin: _join,
    Weigh: _weigh,
    DeltaAggregate: _delta_aggregate,
    DeltaJoin: _delta_join,
    Fold: _fold,
    Match: _match,
}


def _state(node: Node, store_kinds: StoreKinds) -> Shape:
    """What one stateful step keeps. Joins of streams keep rows: their types and the join itself. Aggregates keep
    results, and a join of changelogs must be told that a row goes in the words in which it came: everything below
    counts."""
    if isinstance(node, Aggregate | DeltaAggregate | DeltaJoin):
        return [type(node).__name__, _without_reading(_shape(node, store_kinds))]
    own = SHAPES[type(node)](_Shaper(node, store_kinds), node)
    types = [[str(field.type) for field in child.output] for child in node.inputs]
    return [type(node).__name__, own, types]


def _without_reading(shape: Shape) -> Shape:
    """A shape without how its sources are paced: lateness, idle time, size of a batch."""
    name, own, children = shape
    if name == "Scan":
        assert isinstance(own, list)
        entity, kind, columns, records, time, reading = own
        return [name, [entity, kind, columns, records, time[:2], reading[1:2]], children]
    assert isinstance(children, list)
    return [name, own, [_without_reading(child) for child in children]]
