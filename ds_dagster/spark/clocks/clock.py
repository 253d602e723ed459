"""Which inputs of a plan need event time, and the clock that moves it.

Windows, joins over time and other steps that wait for event time need ticks; everything else runs without a clock. An
immediate temporal join uses times of rows but never waits, so it needs no clock.
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
"""``auto``: rows move time, with a least interval between ticks. ``manual``: only ``advance_clock`` moves time.
``exact``: like ``auto``, with a tick for every batch that moves time, so equal batches give equal ticks (tests)."""
BROKER_LATENESS_MILLIS = 500
"""How far rows of a broker-timed input may be out of order, without ``source.allow.latency.millis``."""
BROKER_LEAST_LATENESS_MILLIS = 130
"""Like :data:`BROKER_LATENESS_MILLIS`, after the broker's clock was measured: time daemons correct offsets below 128 ms
slowly, and set a clock back only for larger ones."""
LATENESS_MILLIS = 10_000
"""Like :data:`BROKER_LATENESS_MILLIS`, for times set by producers or in a column."""


def lateness_edge_millis(root: Node) -> int:
    """How far ticks trail event time, 0 or 1. Before interval joins, patterns and OVER, Spark also drops rows whose
    time equals the watermark, but a row that is exactly as late as allowed is not late."""
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
    """The clock of a plan, None if no node waits for time.

    Args:
        root: the plan.
        reads: read specs by source name; a source without one has times set by producers.
        mode: see :data:`ClockMode`.
        looks: sources are read through ``ds-timed``, which reports every poll to the clock.
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
    """How far time must pass the newest row until no row waits; the waits of stacked steps add up."""
    below = max(map(_span_millis, node.inputs), default=0)
    return below + node.wait_millis


def _grid_millis(root: Node) -> int:
    """Number of which all window ends are multiples; 0 if other nodes than windows wait for time."""
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
    """Name of the tick source over a node's rows; depends only on the name of the node's first source."""
    return "ticks_" + next(scan.source_name for scan in node.walk() if isinstance(scan, Scan))
