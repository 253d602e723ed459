"""What one query needs: rows through its steps, processor time, and the size of its state. Computed from its plan;
pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate, Weigh
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.nodes.window_join import WindowJoin
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.state_store import StateStore, may_move, state_store
from ds_dagster.runtime.sizing.coefficients import Coefficient, Coefficients
from ds_dagster.runtime.sizing.expected import ExpectedLoad

PARTITIONS = "topic.partitions"
LATENESS_SECONDS = 10.0
"""How long rows are kept after their event time: the default bound of lateness."""
CHANGED: Mapping[StateStore | None, str] = MappingProxyType({"heap": "group", "rocksdb": "group_on_disk"})
"""Store → figure of a group of an Aggregate that a batch changes."""
BATCHES = 10
"""Most batches per second. A batch updates each group at most once."""
EXTREMES = frozenset({"MIN", "MAX", "ARRAY_AGG"})


@dataclass(frozen=True, slots=True)
class RowFlow:
    """Facts about the load that are not in the query.

    Attributes:
        rows: qualified name of a relation → rows per second.
        stores: folded name of a store → its kind, in lower case.
        expected: the expected load.
        figures: the coefficients.
    """

    rows: Mapping[str, float]
    stores: Mapping[str, str]
    expected: ExpectedLoad
    figures: Coefficients


@dataclass(frozen=True, slots=True)
class StateStep:
    """One step that keeps state.

    Attributes:
        name: class of its plan node.
        rows: rows per second that it reads.
        kept: rows or groups in its state.
        bytes: size of its state.
        grows: texts about parts of its state that grow without end.
    """

    name: str
    rows: float
    kept: float
    bytes: float
    grows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """What one query needs, in steady state.

    Attributes:
        query: its name.
        rows_in, rows_out: rows per second.
        record_bytes: size of a record of its source with the largest records.
        cores: processor time for rows, in seconds per second.
        steps: its stateful steps.
        on_heap: whether its state is on the heap.
        may_move: whether its state can move to the other store without a new checkpoint.
        taken: figures of the computation that were not measured.
        measured: whether the running job gave figures for rows, ratio or state.
        state: size of all its state, in bytes.
        slots: task slots that it occupies all the time, in real-time mode; 0 for a query in batches. A topic whose
            statement gives no partitions counts as one.
    """

    query: str
    rows_in: float
    rows_out: float
    record_bytes: float
    cores: float
    steps: tuple[StateStep, ...] = ()
    on_heap: bool = False
    may_move: bool = False
    taken: tuple[Coefficient, ...] = ()
    measured: bool = False
    slots: int = 0
    state: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", sum(step.bytes for step in self.steps))

    @property
    def groups_on_heap(self) -> float:
        """Rows or groups that it keeps on the heap."""
        return sum(step.kept for step in self.steps) if self.on_heap else 0.0


class _Walk:
    """One pass over a plan; steps that several sinks share count once."""

    def __init__(self, flow: RowFlow, keys: float, record_bytes: float, store: StateStore | None) -> None:
        self.flow = flow
        self.keys = keys
        self.record_bytes = record_bytes
        self.store = store
        self.rows: dict[str | int, float] = {}
        self.scans: set[str | int] = set()
        self.steps: list[StateStep] = []
        self.seconds = 0.0
        self.used: dict[str, Coefficient] = {}

    def through(self, node: Node) -> float:
        """Rows per second that leave a node."""
        place = node.shared_name or id(node)
        if place not in self.rows:
            self.rows[place] = self._through(node)
            if isinstance(node, Scan):
                self.scans.add(place)
        return self.rows[place]

    def _through(self, node: Node) -> float:
        if isinstance(node, Scan):
            return self._read(node)
        arriving = [self.through(child) for child in node.inputs]
        if isinstance(node, Aggregate) and node.pane_window is not None:
            arriving = [arriving[0] / _windows_per_row(node.pane_window)]
        if node.is_stateful:
            self._keep(node, sum(arriving))
        if isinstance(node, TemporalJoin | StaticJoin):
            return arriving[0]
        rows = sum(arriving)
        if isinstance(node, Window):
            return rows * _windows_per_row(node)
        if isinstance(node, Aggregate) and node.is_final:
            return min(rows, self.keys / max(_step_seconds(node), 0.001))
        return 2 * rows if isinstance(node, Weigh) and node.is_stateful else rows

    def _read(self, scan: Scan) -> float:
        rows = self.flow.rows[str(scan.relation.name)]
        self._spend("read", self.flow.stores.get(scan.relation.store, ""), rows)
        return rows

    def write(self, sink: Sink) -> float:
        """Rows per second that a sink gets."""
        rows = self.through(sink.input)
        self._spend("write", self.flow.stores.get(sink.relation.store, ""), rows)
        return rows

    def _keep(self, node: Node, rows: float) -> None:
        name = _name_of(node)
        self._spend("step", name, rows)
        if isinstance(node, Aggregate):
            self._spend("step", CHANGED[self.store], min(rows, self.keys * BATCHES))
        each = self._figure("state", name).value + (self.record_bytes if node.keeps == "rows" else 0.0)
        count = self._count(node, rows)
        self.steps.append(StateStep(type(node).__name__, rows, count, count * each, tuple(node.growth())))

    def _count(self, node: Node, rows: float) -> float:
        """Rows or groups in the state of a step."""
        if isinstance(node, Aggregate) and node.window is not None:
            return self.keys * _open_windows(node)
        if isinstance(node, IntervalJoin):
            return rows * (node.within_millis / 1000 + LATENESS_SECONDS)
        if isinstance(node, WindowJoin):
            return rows * (_window_seconds(node) + LATENESS_SECONDS)
        if isinstance(node, TemporalJoin):
            return self.keys + rows * LATENESS_SECONDS
        if isinstance(node, Over):
            frame = node.before / 1e6 * rows if node.by_time else self.keys * node.before
            return max(frame, self.keys) + rows * LATENESS_SECONDS
        if isinstance(node, Match) and node.within_millis:
            return rows * (node.within_millis / 1000 + LATENESS_SECONDS)
        return self.keys

    def _spend(self, group: str, name: str, rows: float) -> None:
        self.seconds += rows / self._figure(group, name).value

    def _figure(self, group: str, name: str) -> Coefficient:
        figure = self.flow.figures.of(group, name)
        self.used[figure.name] = figure
        return figure


def needs_keys(query: BoundQuery) -> bool:
    """Whether the size of its state depends on the number of keys."""
    return any(node.is_stateful and not isinstance(node, IntervalJoin | WindowJoin) for node in query.plan.walk())


def demand_of(query: BoundQuery, flow: RowFlow) -> Demand:
    """The demand of a query. ``flow.rows`` must have all relations that it reads; if :func:`needs_keys`, its keys must
    be in ``flow.expected``, stated or measured."""
    measured = flow.expected.measured.get(query.name)
    sizes = [flow.expected.bytes_of(relation) for relation in query.inputs]
    keys = flow.expected.keys_of(query.name)
    store = state_store(query)
    walk = _Walk(flow, keys or 0.0, max(sizes, default=0.0), store)
    rows_out = sum(walk.write(part.root) for part in query.parts)
    rows_in = sum(rows for place, rows in walk.rows.items() if place in walk.scans)
    steps: Sequence[StateStep] = walk.steps
    if measured is not None and measured.ratio is not None:
        rows_out = rows_in * measured.ratio
    if measured is not None and keys is None:
        steps = tuple(_as_measured(walk.steps, measured.state_rows, measured.state_bytes))
    return Demand(
        query=query.name,
        rows_in=rows_in,
        rows_out=rows_out,
        record_bytes=walk.record_bytes,
        cores=walk.seconds,
        steps=tuple(steps),
        on_heap=store == "heap",
        may_move=may_move(query.plan),
        taken=tuple(figure for figure in walk.used.values() if not figure.is_measured),
        measured=measured is not None,
        slots=_slots(query),
    )


def _slots(query: BoundQuery) -> int:
    if realtime_millis(query.sink) is None:
        return 0
    return sum(int(relation.option(PARTITIONS) or 1) for relation in query.inputs)


def _as_measured(steps: Sequence[StateStep], rows: int, bytes_: int) -> Iterator[StateStep]:
    """The steps with the state of the running job, divided evenly, since a job reports only the sum of its steps."""
    for step in steps:
        yield StateStep(step.name, step.rows, rows / len(steps), bytes_ / len(steps), step.grows)


def _name_of(node: Node) -> str:
    if isinstance(node, DeltaAggregate) and any(call.distinct or call.function in EXTREMES for call in node.calls):
        return "DeltaExtremes"
    return type(node).__name__


def _windows_per_row(window: Window) -> float:
    return math.ceil(window.size_millis / window.step_millis) if window.step_millis else 1


def _step_seconds(node: Aggregate) -> float:
    """Seconds between two closed windows of one key."""
    windows = [below for below in node.walk() if isinstance(below, Window)]
    return min((window.step_millis or window.size_millis for window in windows), default=1000) / 1000


def _window_seconds(node: Node) -> float:
    return max((below.size_millis for below in node.walk() if isinstance(below, Window)), default=0) / 1000


def _open_windows(node: Aggregate) -> float:
    """Number of windows of one key that are open at a time."""
    return math.ceil((_window_seconds(node) + LATENESS_SECONDS) / max(_step_seconds(node), 0.001)) + 1
