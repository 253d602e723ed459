"""Makes the planner of an engine write down when changes pass, for :mod:`benchmarks.cdc_latency`."""

import sys

if "ds_dagster.spark.planner.server" in sys.orig_argv:
    from benchmarks import cdc_trace

    cdc_trace.install()
