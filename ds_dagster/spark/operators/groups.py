"""Groups of appended rows, as Spark's own aggregate."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.reading import plain_name
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.functions.aggregates import all_computed, native_call
from ds_dagster.spark.operators.panes import window_of_pane
from ds_dagster.spark.operators.windows import key_of_all, last_moment
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field

_KEY = "__key"


def groups(frame: DataFrame, node: Aggregate, *, timed: bool) -> DataFrame:
    """The node's groups.

    Args:
        frame: its rows; of windows, with ``PANE`` or ``WINDOW``, which carries the watermark that closes a group.
        node: of the plan.
        timed: with the event time of a closed window, the last moment in it.
    """
    is_by_pane = names.PANE in frame.columns
    bounds = {node.window.start: "start", node.window.end: "end"} if node.window else {}
    of_window = {named.name: bounds[n] for named in node.group if (n := plain_name(named.expression)) in bounds}
    keys = [
        compile_expression(frame, named.expression).alias(named.name)
        for named in node.group
        if named.name not in of_window
    ]
    if node.window:
        keys = [sf.col(names.PANE if is_by_pane else names.WINDOW), *(keys or key_of_all(node.window))]
    calls = [native_call(frame, call) for call in node.calls] or [sf.count(sf.lit(1)).alias(_KEY)]
    grouped = frame.groupBy(*keys).agg(*calls)
    if is_by_pane and node.pane_window is not None:
        grouped = grouped.withColumn(names.WINDOW, window_of_pane(node.pane_window))
    grouped = all_computed(grouped, node.calls) if node.held and node.calls else grouped
    output = [_bound(of_window[f.name]).alias(f.name) if f.name in of_window else field(f.name) for f in node.output]
    return grouped.select(*output, *([last_moment(_bound("end"))] if timed else []))


def _bound(name: str) -> Column:
    return sf.col(names.WINDOW).getField(name)
