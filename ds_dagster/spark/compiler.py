"""Plan → streaming DataFrame: one visit method per node.

Between nodes travel the fields of the plan under their internal names, and beside them the technical columns of
:mod:`ds_dagster.spark.columns` that somebody above asked for (``wants``); nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Literal, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.datatypes import common_type
from ds_dagster.errors import error
from ds_dagster.plan.delta_nodes import DeltaAggregate, DeltaJoin, Fold, Weigh
from ds_dagster.plan.nodes import (
    Aggregate,
    AggregateCall,
    BoundExpression,
    Filter,
    IntervalJoin,
    LateRows,
    Node,
    Project,
    Scan,
    Sink,
    TemporalJoin,
    Window,
)
from ds_dagster.plan.row_errors import computed_below
from ds_dagster.plan.weights import has_weights
from ds_dagster.spark import columns as names
from ds_dagster.spark import deltas
from ds_dagster.spark.clock import clocked_sources, tick_source_name
from ds_dagster.spark.columns import field, with_missing
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.formats import SourceFrame, decode
from ds_dagster.spark.functions import AGGREGATES, DISTINCT_AGGREGATES
from ds_dagster.spark.jvm import RETENTION_MICROS, operators
from ds_dagster.spark.row_errors import RowErrors
from ds_dagster.spark.row_logs import RowLogs
from ds_dagster.spark.session import StateStore
from ds_dagster.spark.ticks import carry_time, temporal_input, with_ticks
from ds_dagster.spark.typed_rows import typed_rows
from ds_dagster.spark.typemap import to_spark
from ds_dagster.spark.windows import key_of_all, with_window

OutputMode = Literal["append", "update"]
Wants = frozenset[str]
N = TypeVar("N", bound=Node)

NOTHING: Wants = frozenset()
TIME: Wants = frozenset({names.EVENT_TIME})
POSITION: Wants = frozenset({names.PARTITION, names.ORDER})
_KEY = "__key"
_HOLDS = "__holds"


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of a node. ``timed``: its event time carries Spark's watermark already."""

    frame: DataFrame
    timed: bool = False


def output_mode(root: Sink) -> OutputMode:
    """How Spark emits the plan's rows: ``update`` where groups are refined, else ``append``.

    Raises:
        InternalError: PLAN_NOT_STREAMABLE for a chain that Spark refuses or answers wrongly; the plan's
        checks let none through.
    """
    if has_weights(root):
        return "append"
    aggregates = [node for node in root.walk() if isinstance(node, Aggregate)]
    mode: OutputMode = "update" if any(not node.is_final for node in aggregates) else "append"
    outer = [node for node in root.walk() if isinstance(node, IntervalJoin) and node.kind == "left"]
    if len(aggregates) > 1:
        raise error("PLAN_NOT_STREAMABLE", reason="an aggregate over an aggregate")
    if mode == "update" and outer:
        raise error("PLAN_NOT_STREAMABLE", reason="an aggregate that is refined over a LEFT interval join")
    return mode


def state_store(root: Node) -> StateStore:
    """Where the plan keeps its state: our operators need RocksDB, native ones are faster on the heap."""
    ours = any(isinstance(node, TemporalJoin) for node in root.walk()) or has_weights(root)
    return "rocksdb" if ours else "heap"


class PlanCompiler:
    """Compiles one plan.

    Args:
        spark: the job's session.
        job: whose clock moves time.
        read: gives the records of a scan.
        retention_micros: how long a temporal join keeps ended versions for late rows.
        errors: how rows fail whose expressions do, None where they fail their batch.
        logs: of rows the plan leaves out, None for none.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: str,
        read: Callable[[Scan], SourceFrame],
        retention_micros: int = RETENTION_MICROS,
        errors: RowErrors | None = None,
        logs: RowLogs | None = None,
    ) -> None:
        self.spark = spark
        self.job = job
        self.read = read
        self.retention_micros = retention_micros
        self.errors = errors
        self.logs = logs
        self.clocked: frozenset[str] = frozenset()

    def compile(self, root: Sink, wants: Wants = NOTHING) -> DataFrame:
        """The rows of the sink's relation: its columns by name, ``DELETED`` where rows may be deletes, and
        ``wants``."""
        self.clocked = clocked_sources(root)
        if self.errors is not None:
            root = replace(root, input=computed_below(root.input))
        return self.visit(root, wants).frame

    def visit(self, node: Node, wants: Wants) -> Flow:
        """Rows of a node with the technical columns of ``wants``."""
        return VISITORS[type(node)](self, node, wants)

    def visit_scan(self, node: Scan, wants: Wants) -> Flow:
        """Decoded records; where the clock needs to know, each tells it its time."""
        is_clocked = node.source_name in self.clocked
        source = self.read(node)
        columns = decode if source.rows is None else typed_rows
        frame = columns(source, node, wants | {names.PARTITION} if is_clocked else wants)
        if is_clocked:
            seen = operators(self.spark).seen(
                self.job, node.source_name, sf.col(names.EVENT_TIME), sf.col(names.PARTITION)
            )
            frame = frame.withColumn(names.EVENT_TIME, seen)
            frame = frame if names.PARTITION in wants else frame.drop(names.PARTITION)
        return Flow(frame)

    def visit_filter(self, node: Filter, wants: Wants) -> Flow:
        """Over rows that may be replaced, one that fails deletes its key."""
        flow = self.visit(node.input, wants)
        if self.errors is not None and node.input.changelog == "append":
            judged = self.errors.computed(flow.frame, {_HOLDS: node.condition})
            return Flow(judged.where(sf.col(_HOLDS)).drop(_HOLDS), flow.timed)
        holds = compile_condition(flow.frame, node.condition)
        if not node.emits_deletes:
            return Flow(flow.frame.where(holds), flow.timed)
        deleted = names.deleted(flow.frame) | ~sf.coalesce(holds, sf.lit(False))
        return Flow(flow.frame.withColumn(names.DELETED, deleted), flow.timed)

    def visit_project(self, node: Project, wants: Wants) -> Flow:
        """Computed columns; technical columns pass."""
        flow = self.visit(node.input, wants)
        if self.errors is not None and node.input.changelog == "append":
            numbered = {f"__{i}": named.expression for i, named in enumerate(node.columns)}
            rows = self.errors.computed(flow.frame, numbered)
            made = [sf.col(f"__{i}").alias(named.name) for i, named in enumerate(node.columns)]
            return Flow(rows.select(*made, *_technical(flow.frame)), flow.timed)
        made = [compile_expression(flow.frame, named.expression).alias(named.name) for named in node.columns]
        return Flow(flow.frame.select(*made, *_technical(flow.frame)), flow.timed)

    def visit_window(self, node: Window, wants: Wants) -> Flow:
        """Rows with their window and its bounds, once per window."""
        frame = with_window(self._timed(node.input, (wants | TIME) - {names.WINDOW}).frame, node)
        bounds = {node.start: sf.col(names.WINDOW).getField("start"), node.end: sf.col(names.WINDOW).getField("end")}
        if node.late is not None and self.logs is not None:
            frame = frame.where(self.logs.keep_late(node.late, *_late_values(node.late)))
        return Flow(frame.withColumns(bounds), timed=True)

    def visit_aggregate(self, node: Aggregate, _wants: Wants) -> Flow:
        """A windowed group is keyed by Spark's own window column: it carries the watermark that closes the group."""
        flow = self.visit(node.input, frozenset({names.WINDOW}) if node.window else NOTHING)
        bounds = {node.window.start: "start", node.window.end: "end"} if node.window else {}
        of_window = {named.name: bounds[n] for named in node.group if (n := _plain_column(named.expression)) in bounds}
        keys = [
            compile_expression(flow.frame, named.expression).alias(named.name)
            for named in node.group
            if named.name not in of_window
        ]
        if node.window:
            keys = [sf.col(names.WINDOW), *(keys or key_of_all(node.window))]
        calls = [_aggregate(flow.frame, call) for call in node.calls] or [sf.count(sf.lit(1)).alias(_KEY)]
        frame = flow.frame.groupBy(*keys).agg(*calls)
        output = [
            sf.col(names.WINDOW).getField(of_window[f.name]).alias(f.name) if f.name in of_window else field(f.name)
            for f in node.output
        ]
        return Flow(frame.select(*output))

    def visit_interval_join(self, node: IntervalJoin, wants: Wants) -> Flow:
        """Two range predicates over the event times, from which Spark derives how long rows are kept."""
        left = self._keyed(node.left, node.left_key, node.right_key, "left")
        right = self._keyed(node.right, node.right_key, node.left_key, "right")
        within = sf.lit(timedelta(milliseconds=node.within_millis))
        left_time, right_time = sf.col("__left_time"), sf.col("__right_time")
        meets = (
            (sf.col("__left_key") == sf.col("__right_key"))
            & (right_time >= left_time - within)
            & (right_time <= left_time + within)
        )
        frame = left.join(right, meets, "inner" if node.kind == "inner" else "left_outer")
        time = [left_time.alias(names.EVENT_TIME)] if names.EVENT_TIME in wants else []
        return Flow(frame.select(*[field(f.name) for f in node.output], *time), timed=True)

    def visit_temporal_join(self, node: TemporalJoin, wants: Wants) -> Flow:
        """Both sides as one stream, keyed alike; the operator keeps versions and emits when time has passed a row."""
        left = self._temporal_side(node, node.left, 0)
        right = self._temporal_side(node, node.right, 1)
        both = (with_missing(left, "r", right), with_missing(right, "l", left))
        if node.immediate:
            frame = both[0].unionByName(both[1])
        else:
            frame = temporal_input(self.spark, self.job, both, tick_source_name(node))
        joined = operators(self.spark).temporal_join(
            frame,
            outer=node.kind == "left",
            immediate=node.immediate,
            retention_micros=self.retention_micros,
            job=None if node.immediate else self.job,
        )
        fields = [sf.col("l").getField(f.name).alias(f.name) for f in node.left.output]
        fields += [sf.col("r").getField(f.name).alias(f.name) for f in node.right.output]
        if names.EVENT_TIME in wants:
            fields.append(carry_time(sf.col("l").getField(names.EVENT_TIME), names.EVENT_TIME))
        return Flow(joined.select(*fields), timed=not node.immediate)

    def visit_weigh(self, node: Weigh, _wants: Wants) -> Flow:
        """Rows with weights; of upserts the last of a batch counts."""
        flow = self.visit(node.input, POSITION if node.is_stateful else NOTHING)
        return Flow(deltas.weigh(self.spark, node, flow.frame))

    def visit_delta_aggregate(self, node: DeltaAggregate, _wants: Wants) -> Flow:
        """Groups of rows with weights."""
        return Flow(deltas.aggregate(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_delta_join(self, node: DeltaJoin, _wants: Wants) -> Flow:
        """Pairs of rows with weights."""
        left, right = (self.visit(side, NOTHING).frame for side in node.inputs)
        return Flow(deltas.join(self.spark, node, left, right))

    def visit_fold(self, node: Fold, _wants: Wants) -> Flow:
        """Weights become upserts and deletes."""
        return Flow(deltas.fold(self.spark, node, self.visit(node.input, NOTHING).frame))

    def visit_sink(self, node: Sink, wants: Wants) -> Flow:
        """The relation's columns in its order, each in its type."""
        flow = self.visit(node.input, wants)
        made = [
            field(name).cast(to_spark(column.type)).alias(column.name)
            for column, name in zip(node.relation.columns, node.columns, strict=True)
        ]
        kept = [name for name in (names.DELETED, *sorted(wants)) if name in flow.frame.columns]
        return Flow(flow.frame.select(*made, *[sf.col(name) for name in kept]), flow.timed)

    # steps

    def _timed(self, node: Node, wants: Wants) -> Flow:
        """Rows of a node with the watermark on their event time."""
        flow = self.visit(node, wants)
        if flow.timed:
            return flow
        ticked = with_ticks(self.spark, self.job, flow.frame, names.EVENT_TIME, tick_source_name(node))
        return Flow(ticked, timed=True)

    def _keyed(self, node: Node, key: BoundExpression, other: BoundExpression, side: str) -> DataFrame:
        """One side of an interval join: its fields, its key in the type both sides share, its time."""
        frame = self._timed(node, TIME).frame
        shared = to_spark(common_type(key.type, other.type) or key.type)
        made = compile_expression(frame, key).cast(shared).alias(f"__{side}_key")
        time = sf.col(names.EVENT_TIME).alias(f"__{side}_time")
        return frame.select(*[field(f.name) for f in node.output], made, time)

    def _temporal_side(self, node: TemporalJoin, input_: Node, side: int) -> DataFrame:
        """One side of a temporal join in the operator's columns; ties between versions break by source position."""
        keys = (node.left_key, node.right_key)
        frame = self.visit(input_, TIME | POSITION if side else TIME).frame
        shared = to_spark(common_type(keys[0].type, keys[1].type) or keys[0].type)
        key = compile_expression(frame, keys[side]).cast(shared).alias("k0")
        row = [field(f.name).alias(f.name) for f in input_.output]
        row += [] if side else [sf.col(names.EVENT_TIME)]
        return frame.select(
            sf.struct(key).alias("k"),
            sf.lit(side).alias("side"),
            sf.unix_micros(sf.col(names.EVENT_TIME)).alias("ts"),
            (sf.col(names.ORDER) if side else sf.lit("")).alias("ord"),
            (names.deleted(frame) if side else sf.lit(False)).alias("deleted"),
            sf.struct(*row).alias("r" if side else "l"),
            sf.col(names.EVENT_TIME).alias("et"),
        )


def _technical(frame: DataFrame) -> list[Column]:
    return [sf.col(name) for name in frame.columns if name in names.TECHNICAL]


def _late_values(late: LateRows) -> tuple[Column, Mapping[str, Column]]:
    """The end of a row's window, and what of the row a log of late rows may hold."""
    start, end = (sf.col(names.WINDOW).getField(bound) for bound in ("start", "end"))
    known = {"event_time": sf.col(names.EVENT_TIME), "window_start": start, "window_end": end}
    return end, {**known, **{column: field(name) for column, name in late.fields}}


def _plain_column(expression: BoundExpression) -> str:
    """Name of the field an expression is, empty where it is more than that."""
    return expression.tree.name if type(expression.tree).__name__ == "Column" else ""


def _aggregate(frame: DataFrame, call: AggregateCall) -> Column:
    value = sf.lit(1) if call.argument is None else compile_expression(frame, call.argument)
    if call.filter is not None:
        value = sf.when(compile_condition(frame, call.filter), value)
    type_ = to_spark(call.type)
    made = DISTINCT_AGGREGATES[call.function](value, type_) if call.distinct else AGGREGATES[call.function](value)
    return made.cast(type_).alias(call.name)


def _visits(visit: Callable[[PlanCompiler, N, Wants], Flow]) -> Callable[[PlanCompiler, Node, Wants], Flow]:
    """A method for one class of nodes, seen as one for any; the table below gives it only its own."""
    return visit  # type: ignore[return-value]


VISITORS: Mapping[type[Node], Callable[[PlanCompiler, Node, Wants], Flow]] = MappingProxyType(
    {
        Scan: _visits(PlanCompiler.visit_scan),
        Filter: _visits(PlanCompiler.visit_filter),
        Project: _visits(PlanCompiler.visit_project),
        Window: _visits(PlanCompiler.visit_window),
        Aggregate: _visits(PlanCompiler.visit_aggregate),
        IntervalJoin: _visits(PlanCompiler.visit_interval_join),
        TemporalJoin: _visits(PlanCompiler.visit_temporal_join),
        Weigh: _visits(PlanCompiler.visit_weigh),
        DeltaAggregate: _visits(PlanCompiler.visit_delta_aggregate),
        DeltaJoin: _visits(PlanCompiler.visit_delta_join),
        Fold: _visits(PlanCompiler.visit_fold),
        Sink: _visits(PlanCompiler.visit_sink),
    }
)
"""Node class → its visit method."""
