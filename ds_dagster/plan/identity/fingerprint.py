"""Stable hashes of a plan: its meaning (fingerprint) and what a checkpoint depends on (state signature).

Both are made of positions and types, never of names that only the text knows: aliases, formatting, comments, the
order of properties and connection properties of stores change nothing. A change of the algorithm is a new version
prefix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Unweigh, Weigh
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.relation_shapes import (
    Shape,
    StoreKinds,
    columns_shape,
    entity_shape,
    records_shape,
    sink_shape,
)
from ds_dagster.plan.nodes.rows import Filter, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import WindowJoin
from ds_dagster.plan.patterns.pattern import pattern_text, variables

FINGERPRINT_VERSION = "v1"
STATE_VERSION = "s2"
"""Changes with the algorithm, and when all operators of this package lay their state out in another way."""
EARLIER_STATE_VERSIONS = ("s1",)
"""Algorithms whose signatures journals still hold: s1 had what a bad record does among what an aggregate keeps."""
LAYOUTS: Mapping[type[Node], tuple[int]] = MappingProxyType(
    {Over: (4,), IntervalJoin: (2,), TemporalJoin: (2,), WindowJoin: (2,), Match: (2,)}
)
"""Steps whose state alone is laid out in another way than it once was: the number of the layout."""

NOTHING: Mapping[str, str] = MappingProxyType({})


def fingerprint(root: Sink, *, refresh: str, settings: Mapping[str, object], store_kinds: StoreKinds) -> str:
    """Hash of everything that decides which rows the query writes, and where.

    Args:
        root: plan after rewriting.
        refresh: continuous, incremental or full.
        settings: QUERY WITH without the query's name.
        store_kinds: folded store name → kind.
    """
    meaning = [
        sink_shape(root.relation, store_kinds),
        _Shaper(root.input, store_kinds).columns(root),
        _shape(root.input, store_kinds),
    ]
    return _hash(FINGERPRINT_VERSION, [refresh, sorted(settings.items()), meaning])


def state_signature(root: Sink, *, store_kinds: StoreKinds, version: str = STATE_VERSION) -> str:
    """Hash of what a checkpoint holds: sources with their positions, stateful steps with the types they keep, and for
    aggregates everything below (their state is a result already) but what happens with rows that are left out.

    Args:
        root: plan after rewriting.
        store_kinds: folded store name → kind.
        version: of the algorithm, today's or one of :data:`EARLIER_STATE_VERSIONS`.
    """
    parts: Shape = [
        [scan.source_name, *entity_shape(scan.relation, store_kinds), *_start(scan), *_slot(scan)]
        for scan in _scans(root)
    ]
    parts += [_state(node, store_kinds, version) for node in root.walk() if node.is_stateful]
    return _hash(version, [parts, _sink_state(root)])


def earlier_signatures(root: Sink, *, store_kinds: StoreKinds) -> tuple[str, ...]:
    """What earlier algorithms made of the same state, in the order of :data:`EARLIER_STATE_VERSIONS`."""
    return tuple(state_signature(root, store_kinds=store_kinds, version=one) for one in EARLIER_STATE_VERSIONS)


def combined(parts: Sequence[tuple[str, str]]) -> str:
    """Hash of an application: its queries' names with their fingerprints, or their state signatures, in order; the
    version is theirs."""
    version = parts[0][1].partition(":")[0]
    return _hash(version, [list(part) for part in parts])


def _hash(version: str, shape: Shape) -> str:
    text = json.dumps(shape, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{version}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _slot(scan: Scan) -> Shape:
    """Where no slot is named nothing is added, so that other sources keep their hashes."""
    return [scan.slot] if scan.slot else []


def _log(scan: Scan) -> Shape:
    return [] if scan.log is None else [["log", scan.log.store, scan.log.entity]]


def _scans(root: Node) -> list[Scan]:
    return [node for node in root.walk() if isinstance(node, Scan)]


def _sink_state(root: Sink) -> Shape:
    """What a sink's checkpoint depends on: whether rows replace one another, and by what."""
    return [root.changelog, list(root.key)]


def shape_of(node: Node) -> Shape:
    """What rows a node gives, as nested lists; equal for two nodes that give the same from the same sources."""
    return _shape(node, NOTHING)


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
        if isinstance(self.node, Virtual):
            return _shape(self.node.input, self.store_kinds)
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
        position = (lambda name: own.get(name) or self.position(name)) if own else self.position
        return [expression_text(expression.tree, position, strict=True), str(expression.type)]

    def position(self, name: str) -> str:
        """A field of the inputs, by its place among them."""
        if self._positions is None:
            fields = [field for child in self.node.inputs for field in child.output]
            self._positions = {field.name: f"#{index}" for index, field in enumerate(fields)}
        return self._positions[name]


def _scan(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Scan)
    relation = node.relation
    time = node.time
    column = None if time.column is None else column_of(time.column)
    names = frozenset(c.name for c in node.read_columns)
    return [
        entity_shape(relation, shaper.store_kinds),
        relation.kind,
        columns_shape(relation, names),
        records_shape(relation),
        [column, time.format, time.lateness_millis, time.idle_millis],
        [node.starting_position, node.bad_records, node.max_records_per_batch, node.rowtime, *_start(node)[1:]]
        + (["skip"] if node.data_loss == "skip" else [])
        + _slot(node)
        + _log(node)
        + [column_of(field.name) for field in node.record_fields],
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
    calls = [
        [c.function, shaper.text(c.argument), shaper.text(c.filter), c.distinct, str(c.type)]
        + ([shaper.text(c.order)] if c.order else [])
        for c in node.calls
    ]
    return [[shaper.text(named.expression) for named in node.group], calls]


def _aggregate(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Aggregate)
    return [*_groups_and_calls(shaper, node), node.updates, node.window is not None]


def _join(shaper: _Shaper, node: Node) -> Shape:
    """More keys than one, and what else is asked, stand behind the rest: a join without them keeps its hash."""
    assert isinstance(node, IntervalJoin | TemporalJoin)
    options: Shape = [node.within_millis] if isinstance(node, IntervalJoin) else [node.immediate, node.retention_millis]
    first, *others = _key_pairs(shaper, node)
    more: Shape = [others] if others else []
    return [node.kind, *first, options, *more, *_residual(shaper, node)]


def _residual(shaper: _Shaper, node: IntervalJoin | TemporalJoin | DeltaJoin) -> Shape:
    return [["residual", shaper.text(node.residual)]] if node.residual else []


def _key_pairs(shaper: _Shaper, node: IntervalJoin | TemporalJoin | DeltaJoin | WindowJoin) -> list[Shape]:
    keys = zip(node.left_keys, node.right_keys, strict=True)
    return [[shaper.text(left), shaper.text(right)] for left, right in keys]


def _windowed(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Windowed)
    return [shaper.position(node.start), shaper.position(node.end)]


def _window_join(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, WindowJoin)
    ends = [shaper.position(node.left_end), shaper.position(node.right_end)]
    return [node.kind, ends, [*_key_pairs(shaper, node)]]


def _forgets(node: Weigh | DeltaAggregate | DeltaJoin | Distinct | TopN | Over) -> Shape:
    """Whether state carries the time at which it is forgotten; how long may change with a restart. Where it does not,
    nothing is added, so that other plans keep their hashes."""
    return ["ttl"] if node.ttl_millis else []


def _weigh(_shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Weigh)
    return [node.is_stateful, *_forgets(node)]


def _delta_aggregate(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, DeltaAggregate)
    return [*_groups_and_calls(shaper, node), node.weighted, *_forgets(node)]


def _delta_join(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, DeltaJoin)
    return [node.kind, [*_key_pairs(shaper, node)], *_residual(shaper, node), *_forgets(node)]


def _static_join(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, StaticJoin)
    scan = node.right
    positions = [field.name for field in scan.output]
    right_keys = [
        [expression_text(k.tree, lambda n: f"#{positions.index(n)}", strict=True), str(k.type)] for k in node.right_keys
    ]
    table = [
        entity_shape(scan.relation, shaper.store_kinds),
        columns_shape(scan.relation, frozenset(c.name for c in scan.read_columns)),
    ]
    return [node.kind, [shaper.text(key) for key in node.left_keys], right_keys, table, scan.cache_millis]


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


def _distinct(_shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Distinct)
    return [node.changelog, *_forgets(node)]


def _over(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Over)
    calls = [[c.function, shaper.text(c.argument), shaper.text(c.filter), str(c.type)] for c in node.calls]
    partition = [shaper.text(expression) for expression in node.partition]
    return [partition, calls, node.by_time, node.before, *_forgets(node)]


def _unnest(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, Unnest)
    return [shaper.text(node.value), [str(field.type) for field in node.elements], node.ordinal is not None, node.outer]


def _top_n(shaper: _Shaper, node: Node) -> Shape:
    assert isinstance(node, TopN)
    order = [[shaper.text(term.expression), term.descending, term.nulls_first] for term in node.order]
    partition = [shaper.text(expression) for expression in node.partition]
    positions = [field.name for field in node.output]
    key = [positions.index(name) for name in node.key_names if name in positions]
    return [node.function, node.limit, partition, order, node.ranked, key, *_forgets(node)]


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
    Union: lambda _shaper, _node: [],
    Match: _match,
    Windowed: _windowed,
    WindowJoin: _window_join,
    Distinct: _distinct,
    TopN: _top_n,
    Unweigh: lambda _shaper, _node: [],
    Over: _over,
    Unnest: _unnest,
    StaticJoin: _static_join,
}


def _state(node: Node, store_kinds: StoreKinds, version: str) -> Shape:
    """What one stateful step keeps. Joins of streams keep rows: their types and the join itself. Aggregates keep
    results, and a retraction must equal the row it retracts, so everything below a join of changelogs is part of its
    state."""
    if isinstance(node, Aggregate | DeltaAggregate | DeltaJoin | Distinct | TopN | Over):
        return [type(node).__name__, _without_reading(_shape(node, store_kinds), version), *LAYOUTS.get(type(node), ())]
    own = SHAPES[type(node)](_Shaper(node, store_kinds), node)
    types = [[str(field.type) for field in child.output] for child in node.inputs]
    return [type(node).__name__, own, types, *LAYOUTS.get(type(node), ())]


def _without_reading(shape: Shape, version: str) -> Shape:
    """A shape without how its sources are paced (lateness, idle time, size of a batch) and what bad records do."""
    name, own, children = shape
    if name == "Scan":
        assert isinstance(own, list)
        entity, kind, columns, records, time, reading = own
        bad_records = [reading[1:2]] if version == "s1" else []
        return [name, [entity, kind, columns, records, time[:2], *bad_records], children]
    assert isinstance(children, list)
    return [name, own, [_without_reading(child, version) for child in children]]
