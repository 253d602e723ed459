"""The engine on a Spark cluster: waits for executors, checks their hosts, counts their cores (the number of state
partitions), and closes the state of ended runs."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ds_dagster.catalog.executors import INSTANCES
from ds_dagster.errors import DsError, error
from ds_dagster.names import is_address
from ds_dagster.places.bucket import Bucket, BucketAddress
from ds_dagster.places.bucket_path import BucketPath
from ds_dagster.places.trees import write_whole
from ds_dagster.redaction import redact
from ds_dagster.settings import Settings
from ds_dagster.spark.gateway import package
from ds_dagster.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for partitions of shuffles and of state; a checkpoint keeps the value of its first batch."""
EXECUTOR_SECONDS = 60.0
"""How long a cluster may take to start ``spark.executor.instances`` executors, or the first executor."""
SETTLED_SECONDS = 2.0
"""Without ``spark.executor.instances`` the cluster is complete if no executor has registered for this long."""
_PAUSE = 0.05
_DRIVER = "sparkDriver"
"""Spark's name for the service by which executors reach the driver."""
_HOST, _BIND = "spark.driver.host", "spark.driver.bindAddress"
PYTHON_PROPERTY = "spark.pyspark.python"
PYTHON_PROBE = """
import importlib.util, sys
missing = [name for name in ("ds_dagster", "pyarrow") if importlib.util.find_spec(name) is None]
if missing:
    sys.exit("it has no module " + missing[0])
import ds_dagster
print("Python %d.%d with ds_dagster %s" % (*sys.version_info[:2], ds_dagster.__version__))
"""
"""Program for an executor's Python; the first line of its output is compared with :data:`PYTHON_HERE`."""
PYTHON_HERE = f"Python {sys.version_info.major}.{sys.version_info.minor} with ds_dagster {__version__}"


def registered_cores(session: SparkSession, settings: Settings) -> int:
    """Wait for the cluster's executors, up to :data:`EXECUTOR_SECONDS`. Returns the number of their cores, at least 2.

    Raises:
        ExternalError: CLUSTER_HAS_NO_EXECUTORS.
    """
    context: Any = session.sparkContext._jsc.sc()
    wanted = int(settings.spark.get(INSTANCES, "0"))
    begin = changed = time.monotonic()
    executors = 0
    while not _is_complete(executors, wanted, time.monotonic() - changed):
        if time.monotonic() - begin > EXECUTOR_SECONDS:
            break
        time.sleep(_PAUSE)
        registered = context.getExecutorMemoryStatus().size() - 1  # the driver is listed, too
        if registered != executors:
            executors, changed = registered, time.monotonic()
    if executors < 1:
        raise error("CLUSTER_HAS_NO_EXECUTORS", master=settings.engine.master, seconds=int(EXECUTOR_SECONDS))
    return int(context.defaultParallelism())


def _is_complete(executors: int, wanted: int, seconds: float) -> bool:
    """Whether no more executors are expected. ``wanted``: 0 if not configured; ``seconds``: since the last one came."""
    return executors > 0 and (executors >= wanted if wanted else seconds >= SETTLED_SECONDS)


@dataclass(frozen=True, slots=True)
class HostReport:
    """Versions and folders that one process sees; fields as in ``dsdagster.cluster.Probe.Report``."""

    host: str
    spark: str
    jar: str
    sees_file: bool
    python: str
    problem: str

    @classmethod
    def of(cls, report: Any) -> HostReport:
        """From the Java record."""
        sees_file = bool(report.seesFile())
        return cls(report.host(), report.spark(), report.jar(), sees_file, report.python(), report.problem())


def check_executors(
    session: SparkSession, settings: Settings, bucket: BucketAddress | None = None, *, runs_python: bool = False
) -> None:
    """Check that the hosts of all executors have the state folder or reach the ``bucket`` of the checkpoints, the
    driver's versions of Spark and of the operator jar, and Python if ``runs_python``. Does nothing on a local master.

    Raises:
        ExternalError: CLUSTER_FOLDER_MISSING, CLUSTER_BUCKET_UNREACHABLE, CLUSTER_VERSION_SKEW, CLUSTER_PYTHON_MISSING;
            each names the host.
    """
    if not settings.engine.is_cluster:
        return
    python = settings.spark.get(PYTHON_PROPERTY, sys.executable)
    probe = package(session, "dsdagster").cluster.Probe
    lists: Any = session._jvm
    command = lists.java.util.ArrayList()
    for part in (python, "-c", PYTHON_PROBE) if runs_python else ():
        command.add(part)
    context: Any = session.sparkContext._jsc.sc()
    with _marker(settings, bucket) as marker:
        driver = HostReport.of(probe.here("", context.hadoopConfiguration(), lists.java.util.ArrayList()))
        reports = [HostReport.of(report) for report in probe.executors(context, marker, command)]
    folder = settings.checkpoints.url or str(settings.state)
    problem = problem_of(driver, reports, folder, python if runs_python else "")
    if problem is not None:
        raise problem


@contextmanager
def _marker(settings: Settings, bucket: BucketAddress | None) -> Iterator[str]:
    """Path of a new file that all hosts must see: in the state folder, or in the bucket of the checkpoints."""
    folder = settings.state if bucket is None else BucketPath(Bucket(bucket), settings.checkpoints.prefix)
    marker = folder / f"seen-{uuid.uuid4().hex}"
    write_whole(marker, b"")
    try:
        yield str(marker)
    finally:
        marker.unlink()


def problem_of(driver: HostReport, reports: Iterable[HostReport], folder: str, python: str) -> DsError | None:
    """The error of the first executor that lacks something, or None.

    Args:
        driver: report of the driver, with which the others are compared.
        reports: reports of the executors.
        folder: the state folder, or the address of the checkpoints.
        python: the Python program that executors need; empty if they need none.
    """
    for report in reports:
        host = report.host
        if not report.sees_file and is_address(folder):
            return error("CLUSTER_BUCKET_UNREACHABLE", host=host, place=folder, detail=redact(report.problem))
        if not report.sees_file:
            return error("CLUSTER_FOLDER_MISSING", host=host, folder=folder)
        versions = [
            (f"Spark {report.spark}", f"Spark {driver.spark}"),
            (f"the operator jar {report.jar}", f"the operator jar {driver.jar}"),
            (report.python or PYTHON_HERE, PYTHON_HERE),
        ]
        for theirs, ours in versions:
            if theirs != ours:
                return error("CLUSTER_VERSION_SKEW", host=host, theirs=theirs, ours=ours)
        if python and not report.python:
            return error("CLUSTER_PYTHON_MISSING", host=host, python=python, needed=PYTHON_HERE, detail=report.problem)
    return None


@contextmanager
def starting(settings: Settings, version: str) -> Iterator[None]:
    """Name what keeps Spark from starting on a cluster; does nothing on a local master.

    Args:
        settings: of the project.
        version: of the engine's Spark.

    Raises:
        DsError: CLUSTER_MASTER_SILENT, CLUSTER_ADDRESS_REFUSED, CLUSTER_START_FAILED; those of the body.
    """
    if not settings.engine.is_cluster:
        yield
        return
    master = settings.engine.master
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise error("CLUSTER_START_FAILED", master=master, detail="HADOOP_CONF_DIR is not set for the engine")
    try:
        yield
    except (Py4JJavaError, PySparkException) as failure:
        raise start_failure(str(failure), settings, version) from failure


def start_failure(text: str, settings: Settings, version: str) -> DsError:
    """The error for what Java says when Spark does not start on a cluster. ``version``: of the engine's Spark."""
    master = settings.engine.master
    if master.startswith("spark:") and "stopped SparkContext" in text:
        return error("CLUSTER_MASTER_SILENT", master=master, version=version)
    if "Cannot assign requested address" in text and _DRIVER in text:
        addresses = [settings.spark[name] for name in (_BIND, _HOST) if name in settings.spark]
        address = addresses[0] if addresses else os.environ.get("SPARK_LOCAL_IP", "?")
        return error("CLUSTER_ADDRESS_REFUSED", address=address)
    causes = [line.strip() for line in text.splitlines() if line.startswith((": ", "Caused by: "))]
    reasons = dict.fromkeys(cause.removeprefix("Caused").removeprefix(" by").removeprefix(": ") for cause in causes)
    return error("CLUSTER_START_FAILED", master=master, detail="; ".join(reasons)[:1000] or text[:1000])


def close_ended_stores(session: SparkSession) -> tuple[int, Sequence[str]]:
    """Write and close the state of ended runs. Call it before changing their checkpoints.

    Returns:
        Number of stores that were open, and the executors that did not answer within half a minute.
    """
    closed = package(session, "dsdagster").checkpoint.EndedStores.close(session._jsparkSession)
    return int(closed.stores()), list(closed.silent())
