"""Panes of overlapping windows: the time between two moments at which windows start or end, so that all rows of a pane
are in the same windows.

The group of a pane is kept once. When a window ends, the groups of its panes are merged (``dsdagster.planning.panes``),
so a row costs the same whatever the number of its windows is.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.window import Window
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.operators.windows import pane_micros
from ds_dagster.spark.records import columns as names

_ENTRY = "dsdagster.panes"
"""Entry in the metadata of ``PANE``: three times in microseconds, see ``dsdagster.planning.panes.PaneWindows``."""


def with_pane(frame: DataFrame, window: Window) -> DataFrame:
    """Rows with ``PANE``; a row in no window is dropped.

    Args:
        frame: with ``EVENT_TIME``, the watermark on it.
        window: of overlapping windows.
    """
    pane, size, grid = pane_micros(window), _micros(window.size_millis), _starts(window)
    rows = frame if grid <= size else frame.where(sf.pmod(pane, sf.lit(grid)) < size)
    entry = {_ENTRY: [grid, size, _micros(window.step_millis)]}
    return rows.withColumn(names.PANE, carry_time(sf.timestamp_micros(pane), names.PANE, **entry))


def once_with_pane(frame: DataFrame, window: Window) -> DataFrame:
    """Each row once, with ``PANE``, of rows that occur once for each of their windows (``WINDOW``): in its last one."""
    pane = pane_micros(window)
    last = pane - sf.pmod(pane, sf.lit(_starts(window))) + _micros(window.size_millis)
    return with_pane(frame.where(sf.unix_micros(sf.col(names.WINDOW).getField("end")) == last), window)


def window_of_pane(window: Window) -> Column:
    """``WINDOW`` of a group of panes that have been merged: their column has the window's end."""
    end, size = sf.unix_micros(sf.col(names.PANE)), _micros(window.size_millis)
    start = end - size if window.function == "HOP" else end - 1 - sf.pmod(end - 1, sf.lit(size))
    return sf.struct(sf.timestamp_micros(start).alias("start"), sf.timestamp_micros(end).alias("end"))


def _starts(window: Window) -> int:
    """Microseconds: windows start at multiples of them."""
    return _micros(window.step_millis if window.function == "HOP" else window.size_millis)


def _micros(millis: int) -> int:
    return millis * 1000
