"""The one Spark session of a process that runs test cases."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from ds_dagster.jars import is_resolved, operator_jar, resolve
from ds_dagster.settings import Settings
from ds_dagster.spark.session import build_session, stderr_of_jvm
from ds_dagster.testing.short_lived import session_engine, session_properties

_SPARK = {
    # each step of a case waits for a look without new data
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.log.level": "OFF",
    # a handful of rows: compressing them, or describing plans in full with every batch, only costs time
    "spark.shuffle.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.sql.maxToStringFields": "1",
}


_MEMORY = Path("/dev/shm")
"""Linux's file system in memory; containers often have 64 MB of it."""
_ENOUGH = 2 * 1024**3
"""Free bytes; two processes that run all cases of the project take 160 MB at most."""


def shared_session() -> SparkSession:
    """The session of this process, or a new one, which lives until :func:`end_session` or the end of the process.

    Raises:
        UserError: no Java, no compiler for the operators.
    """
    with _LOCK:  # cases on several threads begin at the same time
        running = _MADE[-1] if _MADE else SparkSession.getActiveSession()
        return running if running is not None else _start()


def _start() -> SparkSession:
    folder = passing_folder("ds-test-spark-")
    settings = Settings(
        root=folder,
        sql=folder,
        state=folder,
        engine=session_engine(),
        spark={**_SPARK, **session_properties(), "spark.local.dir": str(folder)},
    )
    # cases need no connectors, but a process has one JVM, and later users of it may need them
    connectors = resolve("spark-kafka") if is_resolved("spark-kafka") else ()
    jars = (*connectors, operator_jar())
    with stderr_of_jvm(folder / "stderr.log"):
        spark = build_session(settings, jars=jars, app_name="ds test")
    spark.sparkContext.setLogLevel("OFF")
    _MADE.append(spark)
    return spark


def passing_folder(prefix: str) -> Path:
    """A new folder, deleted at the end of the process; in memory if the system has a file system with :data:`_ENOUGH`
    for it, since a store of state makes many small files. ``TMPDIR`` names another place."""
    has_memory = "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=_MEMORY if has_memory else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def end_session() -> None:
    """Stop the session that :func:`shared_session` started, if any."""
    while _MADE:
        _MADE.pop().stop()


_MADE: list[SparkSession] = []
_LOCK = threading.Lock()
