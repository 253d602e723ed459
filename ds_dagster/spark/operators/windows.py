"""Windows of event time: the column with a row's window, and how coarse the clock may be.

A window is a struct of its bounds that carries Spark's watermark; Spark closes a group when the watermark reaches the
window's end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.window import Window, Windowed, WindowFunction
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.records import columns as names

_NUMBER = "__window_number"
_PANE = "__pane"
"""Begin of a row's pane: the time between two moments at which windows start or end, so that all rows of it are in the
same windows. A task aggregates the rows of a pane before each of them becomes rows of windows
(``dsdagster.planning.PaneGroups``)."""


def with_window(frame: DataFrame, window: Window) -> DataFrame:
    """Rows with ``WINDOW``: a row in several windows becomes as many rows, a row in no window is dropped.

    Args:
        frame: with ``EVENT_TIME``, the watermark on it.
        window: node of the plan.
    """
    return ASSIGN[window.function](frame, window)


def window_grid_millis(window: Window) -> int:
    """Windows end only at multiples of this (since 1970), so the clock need not move in between; 0: at any time."""
    return GRID[window.function](window)


def pane_micros(window: Window) -> Column:
    """Begin of a row's pane: the last moment, at or before its event time, at which windows start or end."""
    time = sf.unix_micros(sf.col(names.EVENT_TIME))
    return time - sf.pmod(time, sf.lit(window_grid_millis(window) * 1000))


def window_of_bounds(start: str, end: str) -> Column:
    """``WINDOW`` of rows whose fields contain its bounds; the watermark comes from the steps below."""
    bounds = sf.struct(names.field(start).alias("start"), names.field(end).alias("end"))
    return carry_time(bounds, names.WINDOW)


def last_moment(end: Column) -> Column:
    """Event time of the results of a closed window: the last microsecond in it. So a window above contains it, and time
    does not pass it before the window closes."""
    return carry_time(sf.timestamp_micros(sf.unix_micros(end) - 1), names.EVENT_TIME)


def key_of_all(window: Window | Windowed) -> list[Column]:
    """Key of a SESSION window without GROUP BY columns: equal for all rows, but not a constant, which Spark refuses for
    sessions of a stream. Empty for other windows."""
    if not isinstance(window, Window) or window.function != "SESSION":
        return []
    return [sf.unix_micros(sf.col(names.EVENT_TIME)).bitwiseAND(0).alias(_NUMBER)]


def _tumble(frame: DataFrame, window: Window) -> DataFrame:
    return frame.withColumn(names.WINDOW, sf.window(sf.col(names.EVENT_TIME), f"{window.size_millis} milliseconds"))


def _session(frame: DataFrame, window: Window) -> DataFrame:
    session = sf.session_window(sf.col(names.EVENT_TIME), f"{window.size_millis} milliseconds")
    return frame.withColumn(names.WINDOW, session)


def _hop(frame: DataFrame, window: Window) -> DataFrame:
    """All windows that contain the row; if the step is longer than the window, there may be none."""
    size, step = window.size_millis * 1000, window.step_millis * 1000
    time = sf.col(_PANE)
    into = sf.pmod(time, sf.lit(step))
    more = sf.floor((sf.lit(size - 1) - into) / sf.lit(step))
    numbers = sf.when(into < size, sf.sequence(sf.lit(0).cast("bigint"), more))
    start = time - into - sf.col(_NUMBER) * step
    return _exploded(frame, window, numbers, start, start + size)


def _cumulate(frame: DataFrame, window: Window) -> DataFrame:
    """Windows that start at the last multiple of the size before the row, and end at each step after the row."""
    size, step = window.size_millis * 1000, window.step_millis * 1000
    time = sf.col(_PANE)
    into = sf.pmod(time, sf.lit(size))
    first = sf.floor(into / sf.lit(step)) + 1
    numbers = sf.sequence(first, sf.lit(size // step).cast("bigint"))
    start = time - into
    return _exploded(frame, window, numbers, start, start + sf.col(_NUMBER) * step)


def _exploded(frame: DataFrame, window: Window, numbers: Column, start: Column, end: Column) -> DataFrame:
    """One row per number; the bounds are in microseconds and may depend on the pane and the number."""
    columns = frame.columns
    rows = frame.withColumn(_PANE, pane_micros(window)).select("*", sf.explode(numbers).alias(_NUMBER))
    bounds = sf.struct(sf.timestamp_micros(start).alias("start"), sf.timestamp_micros(end).alias("end"))
    return rows.select(*[names.field(name) for name in columns], carry_time(bounds, names.WINDOW))


ASSIGN: Mapping[WindowFunction, Callable[[DataFrame, Window], DataFrame]] = MappingProxyType(
    {"TUMBLE": _tumble, "HOP": _hop, "CUMULATE": _cumulate, "SESSION": _session}
)
GRID: Mapping[WindowFunction, Callable[[Window], int]] = MappingProxyType(
    {
        "TUMBLE": lambda window: window.size_millis,
        "HOP": lambda window: math.gcd(window.size_millis, window.step_millis),
        "CUMULATE": lambda window: window.step_millis,
        "SESSION": lambda _window: 0,
    }
)
