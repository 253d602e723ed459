"""Plan → streaming DataFrame: one visit method per node.

Between nodes travel the fields of the plan under their internal names, and beside them the technical columns of
:mod:`ds_dagster.spark.columns` that somebody above asked for (``wants``); nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from ds_dagster.plan.static_nodes import StaticJoin, StaticScan
from ds_dagster.plan.weights import has_weights
from ds_dagster.spark import columns as names
from ds_dagster.spark import deltas
from ds_dagster.spark.aggregate_calls import native_call
from ds_dagster.spark.clock import clocked_sources, tick_source_name
from ds_dagster.spark.columns import field, with_missing
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.formats import SourceFrame, decode
from ds_dagster.spark.jvm import RETENTION_MICROS, operators
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
        look_up: gives the rows of a table, of a plan with one.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: str,
        read: Callable[[Scan], SourceFrame],
        retention_micros: int = RETENTION_MICROS,
        look_up: Callable[[StaticScan], DataFrame] | None = None,
    ) -> None:
        self.spark = spark
        self.job = job
        self.read = read
        self.retention_micros = retention_micros
        self.look_up = look_up
        self.clocked: frozenset[str] = frozenset()

    def compile(self, root: Sink, wants: Wants = NOTHING) -> DataFrame:
        """The rows of the sink's relation: its columns by name, ``DELETED`` where rows may be deletes, and
        ``wants``."""
        self.clocked = clocked_sources(root)
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
        holds = compile_condition(flow.frame, node.condition)
        if not node.emits_deletes:
            return Flow(flow.frame.where(holds), flow.timed)
        deleted = names.deleted(flow.frame) | ~sf.coalesce(holds, sf.lit(False))
        return Flow(flow.frame.withColumn(names.DELETED, deleted), flow.timed)

    def visit_project(self, node: Project, wants: Wants) -> Flow:
        """Computed columns; technical columns pass."""
        flow = self.visit(node.input, wants)
        made = [compile_expression(flow.frame, named.expression).alias(named.name) for named in node.columns]
        return Flow(flow.frame.select(*made, *_technical(flow.frame)), flow.timed)

    def visit_window(self, node: Window, wants: Wants) -> Flow:
        """Rows with their window and its bounds, once per window."""
        frame = with_window(self._timed(node.input, (wants | TIME) - {names.WINDOW}).frame, node)
        bounds = {node.start: sf.col(names.WINDOW).getField("start"), node.end: sf.col(names.WINDOW).getField("end")}
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
        calls = [native_call(flow.frame, call) for call in node.calls] or [sf.count(sf.lit(1)).alias(_KEY)]
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

    def visit_static_scan(self, node: StaticScan, _wants: Wants) -> Flow:
        """The rows of a table as they stand."""
        if self.look_up is None:
            raise error("INTERNAL", where=f"no read spec for the table {node.source_name}")
        return Flow(self.look_up(node))

    def visit_static_join(self, node: StaticJoin, wants: Wants) -> Flow:
        """Spark's own join of a stream with rows that stand still; technical columns of the stream pass."""
        left, right = self.visit(node.left, wants), self.visit(node.right, NOTHING).frame
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        keys = [compile_expression(left.frame, a) == compile_expression(right, b) for a, b in pairs]
        joined = left.frame.join(right, keys, "inner" if node.kind == "inner" else "left_outer")
        return Flow(joined, left.timed)

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


def _plain_column(expression: BoundExpression) -> str:
    """Name of the field an expression is, empty where it is more than that."""
    return expression.tree.name if type(expression.tree).__name__ == "Column" else ""


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
        StaticScan: _visits(PlanCompiler.visit_static_scan),
        StaticJoin: _visits(PlanCompiler.visit_static_join),
        Sink: _visits(PlanCompiler.visit_sink),
    }
)
"""Node class → its visit method."""
