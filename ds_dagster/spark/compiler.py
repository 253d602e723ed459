"""Plan → streaming DataFrame: one visit method per node.

A node's frame has the fields of the plan under their internal names, and the technical columns of
:mod:`ds_dagster.spark.records.columns` that a node above needs (``wants``); nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.errors import error
from ds_dagster.plan.checks.row_errors import computed_below
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Unweigh, Weigh
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin, StaticScan
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import WindowExtreme, WindowJoin
from ds_dagster.plan.state_store import own_joins
from ds_dagster.spark.clocks.clock import clocked_sources, lateness_edge_millis, tick_source_name
from ds_dagster.spark.clocks.ticks import carry_time, temporal_input, with_ticks
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.flow import Flow, union
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators import deltas, intervals, temporal, windowed
from ds_dagster.spark.operators.groups import groups
from ds_dagster.spark.operators.matching import match
from ds_dagster.spark.operators.overs import over
from ds_dagster.spark.operators.panes import once_with_pane, with_pane
from ds_dagster.spark.operators.unnest import elements
from ds_dagster.spark.operators.windows import window_of_bounds, with_window
from ds_dagster.spark.queries.constraints import constrained, repeated
from ds_dagster.spark.queries.row_errors import RowErrors, logged_place
from ds_dagster.spark.queries.row_logs import RowLogs, late_place, late_values
from ds_dagster.spark.queries.shared_rows import SharedRows
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.bad_records import Readers
from ds_dagster.spark.records.columns import field, with_missing
from ds_dagster.spark.records.formats import SourceFrame, decode
from ds_dagster.spark.records.typed_rows import typed_rows
from ds_dagster.spark.records.typemap import spark_sql

Wants = frozenset[str]

NOTHING: Wants = frozenset()
TIME: Wants = frozenset({names.EVENT_TIME})
POSITION: Wants = frozenset({names.PARTITION, names.ORDER})
_HOLDS = "__holds"


class PlanCompiler:
    """Compiles one plan.

    Args:
        spark: the job's session.
        job: name of the job, whose clock moves event time.
        read: returns the records of a scan.
        shared: rows that several sinks of an application read, or None.
        errors: how to handle rows whose expressions fail; None if such a row fails its batch.
        look_up: returns the rows of a table; needed only if the plan reads one.
        logs: logs of rows that the plan drops, or None.
        ticks: returns the name of the tick source over a node's rows.
        part: name of the plan, unique in its job.
        panes: the state of overlapping windows is kept by pane; False for a checkpoint that keeps each window.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: str,
        read: Callable[[Scan], SourceFrame],
        shared: SharedRows | None = None,
        errors: RowErrors | None = None,
        look_up: Callable[[StaticScan], DataFrame] | None = None,
        logs: RowLogs | None = None,
        ticks: Callable[[Node], str] = tick_source_name,
        part: str = "",
        panes: bool = True,
    ) -> None:
        self.spark = spark
        self.job = job
        self.readers = Readers(read)
        self.shared = shared
        self.errors = errors
        self.look_up = look_up
        self.logs = logs
        self.ticks = ticks
        self.part = part
        self.panes = panes
        self.clocked = self.repeated = frozenset[str]()
        self.edge_millis = 0
        self.intervals: tuple[IntervalJoin, ...] = ()

    def compile(self, root: Sink, wants: Wants = NOTHING) -> DataFrame:
        """The rows of the sink's relation: its columns by name, ``DELETED`` if rows may be deletes, and ``wants``."""
        if self.errors is not None:
            root = replace(root, input=computed_below(root.input))
        whole = self.shared.whole if self.shared else root
        self.clocked, self.repeated = clocked_sources(whole), repeated(whole)
        self.edge_millis = lateness_edge_millis(whole)
        self.intervals = own_joins(whole)
        return self.visit(root, wants).frame

    def visit(self, node: Node, wants: Wants) -> Flow:
        """Rows of a node with the technical columns of ``wants``."""
        if self.shared is not None and self.shared.has(node):
            return self._shared(node, self.shared)
        return COMPILERS[type(node)](self, node, wants)

    def visit_scan(self, node: Scan, wants: Wants) -> Flow:
        """Decoded records; each reports its event time if the clock needs it."""
        is_clocked = node.source_name in self.clocked
        checked = node.checked
        beside = frozenset({names.PARTITION} if is_clocked else ()) | ({names.RECORD} if node.constraints else NOTHING)
        beside |= {names.PAYLOAD} if node.quarantine else NOTHING
        source = self.readers.source(checked, wants | beside)
        frame = (decode if source.rows is None else typed_rows)(source, checked, wants | beside)
        is_repeated = node.source_name in self.repeated
        frame = constrained(frame, node, node.source_name, self.logs, is_repeated=is_repeated)
        if is_clocked:
            timestamp = operators(self.spark).seen(
                self.job, node.source_name, sf.col(names.EVENT_TIME), sf.col(names.PARTITION)
            )
            frame = frame.withColumn(names.EVENT_TIME, timestamp)
        return Flow(_without(frame, (beside - wants) | (checked.names - node.names)))

    def visit_filter(self, node: Filter, wants: Wants) -> Flow:
        """Rows for which the condition is TRUE; on upserts, a row for which it is not TRUE deletes its key."""
        flow = self.visit(node.input, wants | logged_place(self.errors, node.input))
        if self.errors is not None and node.input.changelog == "append":
            judged = self.errors.computed(flow.frame, {_HOLDS: node.condition}, node.input, wants)
            return Flow(judged.where(sf.col(_HOLDS)).drop(_HOLDS), flow.timed)
        holds = compile_condition(flow.frame, node.condition)
        if not node.emits_deletes:
            return Flow(flow.frame.where(holds), flow.timed)
        deleted = names.deleted(flow.frame) | ~sf.coalesce(holds, sf.lit(False))
        return Flow(flow.frame.withColumn(names.DELETED, deleted), flow.timed)

    def visit_project(self, node: Project, wants: Wants) -> Flow:
        """Computed columns; technical columns pass."""
        flow = self.visit(node.input, wants | logged_place(self.errors, node.input))
        if self.errors is not None and node.input.changelog == "append":
            numbered = {f"__{i}": named.expression for i, named in enumerate(node.columns)}
            rows = self.errors.computed(flow.frame, numbered, node.input, wants)
            outputs = [sf.col(f"__{i}").alias(named.name) for i, named in enumerate(node.columns)]
            return Flow(rows.select(*outputs, *_technical(rows)), flow.timed)
        outputs = [compile_expression(flow.frame, named.expression).alias(named.name) for named in node.columns]
        return Flow(flow.frame.select(*outputs, *_technical(flow.frame)), flow.timed)

    def visit_window(self, node: Window, wants: Wants) -> Flow:
        """Rows with their window and its bounds, once per window; each row once with its pane, if that is asked for."""
        below = (wants | TIME | late_place(node)) - {names.WINDOW, names.PANE}
        frame = self._timed(node.input, below).frame
        is_once = names.PANE in wants and frame.isStreaming
        if is_once and (node.late is None or self.logs is None):
            unknown = sf.lit(None).cast("timestamp")
            return Flow(with_pane(frame, node).withColumns({node.start: unknown, node.end: unknown}), timed=True)
        frame = with_window(frame, node)
        if node.late is not None and self.logs is not None:
            frame = frame.where(self.logs.keep_late(node.late, *late_values(node.late, frame.columns)))
        frame = once_with_pane(frame, node) if is_once else frame
        bounds = {node.start: sf.col(names.WINDOW).getField("start"), node.end: sf.col(names.WINDOW).getField("end")}
        return Flow(_without(frame.withColumns(bounds), late_place(node) - wants), timed=True)

    def visit_windowed(self, node: Windowed, wants: Wants) -> Flow:
        """Rows with the window that a step below assigned; its bounds carry the watermark again."""
        frame = self.visit(node.input, wants - {names.WINDOW}).frame
        if names.PANE in frame.columns:
            return Flow(frame, timed=True)
        return Flow(frame.withColumn(names.WINDOW, window_of_bounds(node.start, node.end)), timed=True)

    def visit_aggregate(self, node: Aggregate, wants: Wants) -> Flow:
        """Groups. A windowed group is keyed by Spark's own window column, which carries the watermark that closes the
        group. The event time of a closed window is the last moment in it."""
        flow = self._grouped_rows(node)
        return Flow(groups(flow.frame, node, timed=names.EVENT_TIME in wants), timed=node.window is not None)

    def visit_interval_join(self, node: IntervalJoin, wants: Wants) -> Flow:
        """Our operator, or Spark's join if a later step needs the event time of the pairs."""
        left, right = (self._timed(side, TIME).frame for side in (node.left, node.right))
        if node in self.intervals:
            return Flow(intervals.join(self.spark, node, (left, right), wants))
        return Flow(intervals.native_join(node, (left, right), wants), timed=True)

    def visit_temporal_join(self, node: TemporalJoin, wants: Wants) -> Flow:
        """Both sides as one stream with the same key; the operator keeps versions, and emits a row when event time has
        passed it."""
        left, timed = self._temporal_side(node, 0)
        right, _ = self._temporal_side(node, 1)
        both = (with_missing(left, "r", right), with_missing(right, "l", left))
        if node.immediate:
            frame = both[0].unionByName(both[1])
        else:
            frame = temporal_input(self.spark, self.job, both, None if timed else self.ticks(node))
        joined = operators(self.spark).temporal_join(
            frame,
            outer=node.kind == "left",
            immediate=node.immediate,
            retention_micros=node.retention_millis * 1000,
            edge_millis=self.edge_millis,
            late_rows=not timed,
            job=None if node.immediate else self.job,
        )
        fields = [sf.col("l").getField(f.name).alias(f.name) for f in node.left.output]
        fields += [sf.col("r").getField(f.name).alias(f.name) for f in node.right.output]
        if names.EVENT_TIME in wants:
            fields.append(carry_time(sf.col("l").getField(names.EVENT_TIME), names.EVENT_TIME))
        frame = joined.select(*fields)
        if node.residual is not None:
            frame = temporal.without_version(frame, node.residual, node.right)
        return Flow(frame, timed=timed or not node.immediate)

    def visit_window_join(self, node: WindowJoin, wants: Wants) -> Flow:
        """Both sides as one stream, keyed by the window's end. Spark drops rows whose end has passed; the operator
        emits a window when event time passes its end."""
        frames = [self.visit(side, NOTHING).frame for side in node.inputs]
        return Flow(windowed.join(self.spark, node, frames, wants), timed=True)

    def visit_window_extreme(self, node: WindowExtreme, wants: Wants) -> Flow:
        """Rows keyed by their window's end; a window is closed as in :meth:`visit_window_join`."""
        return Flow(windowed.extreme(self.spark, node, self.visit(node.input, NOTHING).frame, wants), timed=True)

    def visit_match(self, node: Match, _wants: Wants) -> Flow:
        """Rows in the order of event time and position; Spark drops and counts late rows."""
        return Flow(match(self.spark, node, self._timed(node.input, TIME | POSITION).frame))

    def visit_weigh(self, node: Weigh, _wants: Wants) -> Flow:
        """Rows with weights; of several upserts of a key in a batch, the last counts."""
        flow = self.visit(node.input, POSITION if node.is_stateful else NOTHING)
        return Flow(deltas.weigh(self.spark, node, flow.frame))

    def visit_delta_aggregate(self, node: DeltaAggregate, _wants: Wants) -> Flow:
        """Groups of rows with weights."""
        return Flow(deltas.aggregate(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_delta_join(self, node: DeltaJoin, _wants: Wants) -> Flow:
        """Pairs of rows with weights."""
        left, right = (self.visit(side, NOTHING).frame for side in node.inputs)
        return Flow(deltas.join(self.spark, node, left, right))

    def visit_virtual(self, node: Virtual, wants: Wants) -> Flow:
        """The rows of its SELECT."""
        return self.visit(node.input, wants)

    def visit_fold(self, node: Fold, _wants: Wants) -> Flow:
        """Weights become upserts and deletes."""
        return Flow(deltas.fold(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_union(self, node: Union, wants: Wants) -> Flow:
        """The rows of all branches. No branch carries a watermark: it is attached above, over all branches together.
        A branch with shared rows may have more technical columns than the others; only common ones are kept."""
        frames = [self.visit(branch, wants).frame for branch in node.branches]
        everywhere = frozenset.intersection(*(frozenset(frame.columns) for frame in frames))
        technical = (names.TECHNICAL & everywhere) | {names.DELETED, names.WEIGHT}
        beside = [column for column in frames[0].columns if column in technical]
        fields = [field(name) for name in (*(f.name for f in node.output), *beside)]
        return Flow(union([frame.select(*fields) for frame in frames]))

    def visit_distinct(self, node: Distinct, _wants: Wants) -> Flow:
        """Each row once."""
        return Flow(deltas.distinct(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_over(self, node: Over, wants: Wants) -> Flow:
        """Rows with results over the rows before them, once event time has passed them; Spark drops late rows."""
        frame = self._timed(node.input, TIME).frame
        return Flow(over(self.spark, node, frame, timed=names.EVENT_TIME in wants), timed=True)

    def visit_unweigh(self, node: Unweigh, _wants: Wants) -> Flow:
        """Appended rows, without weights."""
        return Flow(deltas.unweigh(self.visit(node.input, NOTHING).frame, node.output))

    def visit_top_n(self, node: TopN, _wants: Wants) -> Flow:
        """The first rows of each partition."""
        return Flow(deltas.top_n(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_unnest(self, node: Unnest, wants: Wants) -> Flow:
        """Elements of each row; technical columns pass."""
        flow = self.visit(node.input, wants)
        return Flow(elements(flow.frame, node), flow.timed)

    def visit_static_scan(self, node: StaticScan, _wants: Wants) -> Flow:
        """The current rows of a table."""
        if self.look_up is None:
            raise error("INTERNAL", where=f"no read spec for the table {node.source_name}")
        return Flow(self.look_up(node))

    def visit_static_join(self, node: StaticJoin, wants: Wants) -> Flow:
        """Spark's own join of a stream with static rows; technical columns of the stream pass."""
        left, right = self.visit(node.left, wants), self.visit(node.right, NOTHING).frame
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        keys = [compile_expression(left.frame, a) == compile_expression(right, b) for a, b in pairs]
        joined = left.frame.join(right, keys, "inner" if node.kind == "inner" else "left_outer")
        return Flow(joined, left.timed)

    def visit_sink(self, node: Sink, wants: Wants) -> Flow:
        """The relation's columns in declared order and type; rows satisfy the relation's constraints."""
        placed = frozenset({names.RECORD}) if node.constraints and node.input.is_ordered else NOTHING
        flow = self.visit(node.input, wants | placed)
        rows = constrained(flow.frame, node, self.part, self.logs)
        flow = replace(flow, frame=_without(rows, placed - wants))
        outputs = [
            field(name).cast(spark_sql(column.type)).alias(column.name)
            for column, name in zip(node.relation.columns, node.columns, strict=True)
        ]
        carried = [name for name in (names.DELETED, *sorted(wants)) if name in flow.frame.columns]
        return Flow(flow.frame.select(*outputs, *[sf.col(name) for name in carried]), flow.timed)

    # steps

    def _shared(self, node: Node, shared: SharedRows) -> Flow:
        """Rows that several sinks read, with the technical columns of all of them."""
        return shared.rows(node, lambda: COMPILERS[type(node)](self, node, shared.wants(node)))

    def _grouped_rows(self, node: Aggregate) -> Flow:
        """The rows of an aggregate, with their pane if its state is kept by pane, else with their window."""
        if not node.window:
            return self.visit(node.input, NOTHING)
        window = node.pane_window if self.panes else None
        flow = self.visit(node.input, frozenset({names.PANE if window else names.WINDOW}))
        if window is None or names.PANE in flow.frame.columns or not flow.frame.isStreaming:
            return flow
        return replace(flow, frame=once_with_pane(flow.frame, window))

    def _timed(self, node: Node, wants: Wants) -> Flow:
        """Rows of a node with the watermark on their event time; bounded rows (backfills) need none."""
        flow = self.visit(node, wants)
        if flow.timed or not flow.frame.isStreaming:
            return replace(flow, timed=True)
        ticked = with_ticks(self.spark, self.job, flow.frame, names.EVENT_TIME, self.ticks(node))
        return Flow(ticked, timed=True)

    def _temporal_side(self, node: TemporalJoin, side: int) -> tuple[DataFrame, bool]:
        """One side of a temporal join in the operator's columns, and whether a step below has set the watermark on it.
        Ties between versions are broken by source position."""
        input_ = node.right if side else node.left
        flow = self.visit(input_, TIME | POSITION if side else TIME)
        return temporal.side(node, flow.frame, side), flow.timed


def _without(frame: DataFrame, columns: frozenset[str]) -> DataFrame:
    return frame.select(*[field(name) for name in frame.columns if name not in columns]) if columns else frame


def _technical(frame: DataFrame) -> list[Column]:
    return [sf.col(name) for name in frame.columns if name in names.TECHNICAL]


COMPILERS: Mapping[type[Node], Callable[[PlanCompiler, Any, Wants], Flow]] = MappingProxyType(
    {
        Scan: PlanCompiler.visit_scan,
        Filter: PlanCompiler.visit_filter,
        Project: PlanCompiler.visit_project,
        Window: PlanCompiler.visit_window,
        Aggregate: PlanCompiler.visit_aggregate,
        IntervalJoin: PlanCompiler.visit_interval_join,
        TemporalJoin: PlanCompiler.visit_temporal_join,
        Match: PlanCompiler.visit_match,
        Weigh: PlanCompiler.visit_weigh,
        DeltaAggregate: PlanCompiler.visit_delta_aggregate,
        DeltaJoin: PlanCompiler.visit_delta_join,
        Fold: PlanCompiler.visit_fold,
        Union: PlanCompiler.visit_union,
        Distinct: PlanCompiler.visit_distinct,
        Windowed: PlanCompiler.visit_windowed,
        WindowJoin: PlanCompiler.visit_window_join,
        WindowExtreme: PlanCompiler.visit_window_extreme,
        Virtual: PlanCompiler.visit_virtual,
        TopN: PlanCompiler.visit_top_n,
        Unweigh: PlanCompiler.visit_unweigh,
        Over: PlanCompiler.visit_over,
        Unnest: PlanCompiler.visit_unnest,
        StaticScan: PlanCompiler.visit_static_scan,
        StaticJoin: PlanCompiler.visit_static_join,
        Sink: PlanCompiler.visit_sink,
    }
)
"""Node class → what returns the rows of a node, with the technical columns that a node above needs; a test checks that
every class is listed."""
