"""The peer of "many jobs": a program by hand that runs many streaming queries in one driver.

Prints one line of JSON per stage: seconds from ``start()`` to the first sign of life of the last queries, memory, and
CPU while idle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from benchmarks.measure import children, cpu_seconds, resident_megabytes
from ds_dagster.jars import driver_jars
from ds_dagster.settings import load_settings
from ds_dagster.spark.session import build_session

WAIT_SECONDS = 120.0


def begin(spark: SparkSession, asked: argparse.Namespace, number: int) -> StreamingQuery:
    """One query as :func:`benchmarks.peers.filtered`, waiting for data when this returns."""
    frame = peers.filtered(peers.read(peers.session(spark), asked.bootstrap, asked.topic))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"job{number}")
    writer = peers.to_topic(frame, asked.bootstrap, f"many_peer_{number}")
    query = writer.option("checkpointLocation", str(asked.folder / str(number))).start()
    end = time.monotonic() + WAIT_SECONDS
    while not query.recentProgress and query.status["message"] != "Waiting for data to arrive":
        if time.monotonic() > end:
            raise SystemExit(f"query {number} does not start")
        time.sleep(0.01)
    return query


def main() -> int:
    """Start stage by stage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--stages", required=True, help="1,10,50")
    parser.add_argument("--idle", type=float, required=True)
    asked = parser.parse_args()
    settings = load_settings(asked.root)
    spark = build_session(settings, jars=driver_jars(), app_name="many")
    spark.sparkContext.setLogLevel("ERROR")
    running: list[StreamingQuery] = []
    for stage in map(int, asked.stages.split(",")):
        taken = []
        while len(running) < stage:
            begun = time.perf_counter()
            running.append(begin(spark, asked, len(running)))
            taken.append(time.perf_counter() - begun)
        print(json.dumps({"stage": stage, "start": taken[-3:], **idle(os.getpid(), asked.idle)}), flush=True)
    for query in running:
        query.stop()
    spark.stop()
    return 0


def idle(pid: int, seconds: float) -> dict[str, float]:
    """Memory and CPU (share of one core) of a process and its children while nothing happens."""
    time.sleep(seconds / 4)
    pids = children(pid)
    before, begun = cpu_seconds(pids), time.perf_counter()
    time.sleep(seconds)
    used = (cpu_seconds(pids) - before) / (time.perf_counter() - begun)
    return {"cpu": 100 * used, "memory": resident_megabytes(pids)}


if __name__ == "__main__":
    sys.exit(main())
