"""Which inputs of a plan need event time, and the clock that moves it.

A window or a join over time needs ticks; everything else runs without a clock and pays nothing for it. An immediate
temporal join uses times of rows but never waits, so it has no clock either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ds_dagster.catalog.io_spec import ReadSpec
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.window import Window
from ds_dagster.spark.clocks.config import STEP_MICROS, ClockConfig, InputTime
from ds_dagster.spark.operators.windows import window_grid_millis

ClockMode = Literal["auto", "manual", "exact"]
"""``auto``: rows move time, ticks some time apart. ``manual``: by hand only. ``exact``: as ``auto``, but a tick behind
every batch that moves time, so that the same batches give the same ticks (tests)."""
BROKER_LATENESS_MILLIS = 500
"""How far rows of a broker-timed input may be out of order (``source.allow.latency.millis`` not given)."""
BROKER_LEAST_LATENESS_MILLIS = 130
"""The same once the broker has been measured: daemons that keep clocks right correct less than 128 ms slowly, and set a
clock back only by more."""
LATENESS_MILLIS = 10_000
"""The same for times set by producers or in a column."""


def lateness_edge_millis(root: Node) -> int:
    """How far ticks trail event time. Before an interval join, a pattern and OVER Spark drops rows stamped
    at the watermark itself, yet a row that is exactly as late as the bound allows is in time."""
    return 1 if any(node.drops_late_rows for node in root.walk()) else 0


def clocked_sources(root: Node) -> frozenset[str]:
    """Names of the sources whose rows report their time to the clock."""
    sources: set[str] = set()
    for node in root.walk():
        if node.waits_for_time:
            sources |= {scan.source_name for scan in node.walk() if isinstance(scan, Scan)}
    return frozenset(sources)


def clock_config(
    root: Node, reads: Mapping[str, ReadSpec], *, mode: ClockMode = "auto", looks: bool = True
) -> ClockConfig | None:
    """The clock of a plan, None where nothing waits for time.

    Args:
        root: the plan.
        reads: by source name; a source that is not in it has times set by producers.
        mode: see :data:`ClockMode`.
        looks: sources are read through the wrapper that reports every poll to the clock.
    """
    clocked = clocked_sources(root)
    if not clocked:
        return None
    scans = [node for node in root.walk() if isinstance(node, Scan) and node.source_name in clocked]
    edge = lateness_edge_millis(root)
    is_only = sum(node.waits_for_time for node in root.walk()) == 1
    return ClockConfig(
        inputs={scan.source_name: _input_time(scan, reads.get(scan.source_name), looks, edge) for scan in scans},
        span_micros=1000 * _span_millis(root),
        soonest_micros=None if is_only else 0,
        grid_micros=1000 * _grid_millis(root),
        mode="manual" if mode == "manual" else "auto",
        step_micros=0 if mode == "exact" else STEP_MICROS,
    )


def _span_millis(node: Node) -> int:
    """How far time must pass the newest row until no row waits: stacked steps wait one after the other."""
    below = max(map(_span_millis, node.inputs), default=0)
    return below + node.wait_millis


def _grid_millis(root: Node) -> int:
    """What all windows' ends are multiples of, where nothing but windows waits; else 0."""
    asking = [node for node in root.walk() if node.asks_time]
    grids = [window_grid_millis(node) if isinstance(node, Window) else 0 for node in asking]
    return math.gcd(*grids) if all(grids) else 0


def _input_time(scan: Scan, spec: ReadSpec | None, looks: bool, edge: int) -> InputTime:
    is_broker = scan.time.column is None and spec is not None and spec.time_authority == "broker"
    default = BROKER_LATENESS_MILLIS if is_broker else LATENESS_MILLIS
    lateness = default if scan.time.lateness_millis is None else scan.time.lateness_millis
    is_measured = is_broker and scan.time.lateness_millis is None
    return InputTime(
        time="broker" if is_broker else "record",
        bound_micros=1000 * (lateness + edge),
        least_bound_micros=1000 * (BROKER_LEAST_LATENESS_MILLIS + edge) if is_measured else None,
        idle_micros=1000 * scan.time.idle_millis,
        looks=looks,
    )


def tick_source_name(node: Node) -> str:
    """Name of the tick source over a node's rows: stable as long as its left-most source is."""
    return "ticks_" + next(scan.source_name for scan in node.walk() if isinstance(scan, Scan))
