"""Spark sessions: one driver for the engine, and a separate session for each job.

Every name that differs between Spark's minor versions or is not part of its public API is in :data:`CLASSES` and
:data:`SETTINGS`. The settings were chosen by measuring small batches on two cores; a local file system that starts no
processes alone makes a batch three to five times shorter.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from ds_dagster.class_archive import java_options
from ds_dagster.names import safe_name
from ds_dagster.places.bucket import BucketAddress
from ds_dagster.plan.state_store import StateStore
from ds_dagster.settings import Settings, is_local
from ds_dagster.spark.buckets import bucket_settings, give_keys
from ds_dagster.spark.cluster import PARTITIONS, PYTHON_PROPERTY, check_executors, registered_cores, starting
from ds_dagster.spark.gateway import has_operators, known_class, launch_jvm, quicken

LOCAL_FILE_SYSTEMS: Mapping[bool, str] = MappingProxyType(
    {True: "dsdagster.fs.DurableLocalFileSystem", False: "dsdagster.fs.NioLocalFileSystem"}
)
"""Whether writes must survive a power failure (``engine.durable``) → class of the local file system."""

_STREAMING = "org.apache.spark.sql.execution.streaming"
CLASSES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "checkpoint_files": MappingProxyType(
            {
                "4.2": f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
                "4.3": f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
            }
        ),
        "memory_stream": MappingProxyType(
            {"4.2": f"{_STREAMING}.runtime.MemoryStream$", "4.3": f"{_STREAMING}.runtime.MemoryStream$"}
        ),
        "heap": MappingProxyType(
            {
                "4.2": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
                "4.3": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
            }
        ),
        "rocksdb": MappingProxyType(
            {
                "4.2": f"{_STREAMING}.state.RocksDBStateStoreProvider",
                "4.3": f"{_STREAMING}.state.RocksDBStateStoreProvider",
            }
        ),
    }
)
"""Name here → Spark minor version → class name. An unlisted version uses the entry of the newest."""

DIRECT_RESULTS = "spark.task.maxDirectResultSize"
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # plans print the options of their sources; Spark's own pattern knows no keys of certificates
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore|private key",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        # records where our code made each column: six calls into the JVM per column
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        PARTITIONS: "1",
        "spark.sql.streaming.pollingDelay": "100ms",
        # only ticks move event time; a tick is data, and sets the watermark of its own batch, so a batch without data
        # has nothing to do (dsdagster.time.BatchWatermark); with a time to live such batches would follow endlessly
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.adaptive.enabled": "false",
        # evaluators are made once; the closures of Spark's default are analysed and serialized in every batch
        "spark.sql.execution.usePartitionEvaluator": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # the rows of a batch for a table pass the driver, up to a million; Spark's 1g is for rows of 1 KB
        "spark.driver.maxResultSize": "5g",
        # larger results of tasks go through a block of storage and a connection, within one process too
        DIRECT_RESULTS: "64m",
        "spark.cleaner.periodicGC.interval": "10min",
        # a job has about twenty generated classes, fifty jobs a thousand: with Spark's 100 every batch compiles again
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Spark's own pages are not used: describe batches briefly, and keep fewer than the default of a thousand
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "50",
    }
)
"""Defaults of every session; ``[tool.ds-dagster.spark]`` overrides any of them."""

CLUSTER_OVERRIDES = frozenset({"spark.driver.host", "spark.driver.bindAddress", PARTITIONS, DIRECT_RESULTS})
"""Defaults that are used only on a local master."""

_LOGGERS_OF_VALUES = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers of PySpark that log every failure with values of the user's rows."""
KAFKA_WRITERS = "spark.dsdagster.kafkaWriters"
"""Property with ``engine.kafka_writers``."""
STATE_STORE_CLASS = "spark.sql.streaming.stateStore.providerClass"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError -XX:-HeapDumpOnOutOfMemoryError"
"""End the JVM, with exit code 3, if a thread runs out of memory: other threads may then be dead or wait for ever. State
is on disk, and a new JVM continues from there."""
QUICK_START = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000 "
    "-XX:Tier4BackEdgeThreshold=160000 -XX:Tier3DelayOn=0 -XX:Tier3DelayOff=0 "
    "-XX:Tier3InvocationThreshold=600 -XX:Tier3MinInvocationThreshold=300 -XX:Tier3CompileThreshold=6000 "
    "-XX:MetaspaceSize=256m -XX:G1HeapRegionSize=16m"
)
"""Compile a method after three times as many calls as Java does by itself, optimize it after four times as many calls
and loops, and count no profile of it while others wait to be optimized: Java's compilers took half of the processor
time of an engine that starts, and loops over rows reach these numbers at once. Mark the heap neither because of classes
before they take 256 MB, nor because of the blocks of 4 MB that Spark broadcasts, which smaller regions do not hold.
Measured in ``docs/performance.md``."""


def class_name(what: str, version: str) -> str:
    """The class of an entry of :data:`CLASSES` in a Spark version (``4.2.0``)."""
    by_minor = CLASSES[what]
    minor = ".".join(version.split(".")[:2])
    return by_minor.get(minor, by_minor[max(by_minor)])


def session_settings(
    settings: Settings, *, jars: Iterable[Path], version: str, bucket: BucketAddress | None = None
) -> Mapping[str, str]:
    """Every property of the engine's session: defaults, then values for this machine, then the project's properties.
    Jars in the project's ``spark.jars`` are added to ours.

    Args:
        settings: of the project.
        jars: connector jars and the operator jar; they must be on the class path when the JVM starts.
        version: version of Spark (``4.2.0``).
        bucket: of the checkpoints; None: they are on disk.
    """
    master = settings.engine.master or f"local[{settings.engine.cores}]"
    jar_files = tuple(jars)
    more = [path.strip() for path in settings.spark.get("spark.jars", "").split(",") if path.strip()]
    paths = [*(str(path) for path in jar_files), *more]
    values = {k: v for k, v in SETTINGS.items() if is_local(master) or k not in CLUSTER_OVERRIDES}
    values |= {
        "spark.master": master,
        "spark.driver.memory": settings.engine.memory,
        "spark.dsdagster.batchMegabytes": str(settings.engine.batch_megabytes),
        KAFKA_WRITERS: settings.engine.kafka_writers,
        PYTHON_PROPERTY: sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.driver.defaultJavaOptions": f"{END_WITHOUT_MEMORY} {QUICK_START}",
        "spark.sql.warehouse.dir": (settings.state / "warehouse").as_uri(),
        STATE_STORE_CLASS: class_name("heap", version),
    }
    if paths and is_local(master):
        values |= {
            "spark.hadoop.fs.file.impl": LOCAL_FILE_SYSTEMS[settings.engine.durable],
            _FILE_MANAGER: class_name("checkpoint_files", version),
        }
        if archive := java_options(jar_files):
            values["spark.driver.defaultJavaOptions"] += f" {archive}"
    values |= bucket_settings(bucket) if bucket is not None else {}
    class_path = settings.spark.get("spark.driver.extraClassPath", "")
    placed = {
        "spark.jars": ",".join(paths),
        "spark.driver.extraClassPath": os.pathsep.join(filter(None, (*paths, class_path))),
    }
    return MappingProxyType({**values, **settings.spark, **(placed if paths else {})})


def build_session(
    settings: Settings, *, jars: Iterable[Path], app_name: str, bucket: BucketAddress | None = None
) -> SparkSession:
    """Start the JVM and its session (classic, not Connect); the caller stops it. On a cluster, wait for the executors:
    by default state has as many partitions as they have cores.

    Args:
        settings: master, cores, memory and Spark properties of the project.
        jars: see :func:`session_settings`.
        app_name: shown by Spark.
        bucket: of the checkpoints, with its login; None: they are on disk.

    Raises:
        DsError: CLUSTER_HAS_NO_EXECUTORS, and the conditions of :func:`starting` and :func:`check_executors`.
    """
    import pyspark

    if not settings.engine.has_other_hosts:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the JVM reads it where it plans Python data sources
    for name in _LOGGERS_OF_VALUES:
        logging.getLogger(name).disabled = True
    properties = session_settings(settings, jars=jars, version=pyspark.__version__, bucket=bucket)
    values = {**properties, "spark.app.name": app_name}
    with starting(settings, pyspark.__version__):
        launch_jvm(values)
        builder = SparkSession.builder
        for key, value in values.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        quicken(session)
        if has_operators(session):
            context = cast(Any, session.sparkContext)._jsc.sc()
            known_class(session, "dsdagster.schedule.OldestFirst").install(context)
            known_class(session, "dsdagster.session.HadoopDefaults").drop(context.hadoopConfiguration())
            known_class(session, "dsdagster.session.PythonSources").skipLookup()
        if bucket is not None:
            give_keys(session, bucket)
        if settings.engine.is_cluster:
            _join_cluster(session, settings, bucket)
    return session


def _join_cluster(session: SparkSession, settings: Settings, bucket: BucketAddress | None) -> None:
    """Wait for executors and check their hosts; if either fails, the session is stopped."""
    with ExitStack() as undo:
        undo.callback(session.stop)
        cores = registered_cores(session, settings)
        if has_operators(session):
            check_executors(session, settings, bucket)
        undo.pop_all()
    if PARTITIONS not in settings.spark:
        session.conf.set(PARTITIONS, str(cores))


@contextmanager
def stderr_of_jvm(log: Path) -> Iterator[None]:
    """Send the standard error of a JVM launched in the body to a file (it reports incubator modules, log4j's profile).

    A process inherits standard error at its launch, so keep the body to the launch: everything that this process writes
    to standard error meanwhile goes to the file too. If the body fails, the file's text is printed.
    """
    sys.stderr.flush()
    terminal, launched = os.dup(2), False
    with log.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
        launched = True
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        if not launched:
            sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))


def job_session(spark: SparkSession, settings: Mapping[str, str], store: StateStore) -> SparkSession:
    """A new session for one job: same JVM, own configuration, own temporary names.

    Args:
        spark: the engine's session.
        settings: Spark SQL properties of this job.
        store: ``rocksdb`` for ``transformWithState`` and large state, ``heap`` for everything else.
    """
    session = spark.newSession()
    session.conf.set(STATE_STORE_CLASS, class_name(store, spark.version))
    session.conf.set(PARTITIONS, cast("str", spark.conf.get(PARTITIONS)))
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def heap_bytes(spark: SparkSession) -> int:
    """The heap of the JVM that runs the tasks; 0 on a cluster, where executors do."""
    if not is_local(str(spark.sparkContext.master)):
        return 0
    return int(known_class(spark, "java.lang.Runtime").getRuntime().maxMemory())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The frame in another session of the same JVM, so that its query uses that session's configuration."""
    classic = known_class(session, "org.apache.spark.sql.classic.Dataset")
    dataset = classic.ofRows(session._jsparkSession, frame._jdf.logicalPlan())
    return cast("DataFrame", ClassicDataFrame(dataset, session))


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Run the body with this session as the active one of the calling thread: Spark looks up data sources, mainly
    sinks, in the active session."""
    sessions: Any = SparkSession._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def in_pool(spark: SparkSession, job: str) -> Iterator[None]:
    """Run the body in the job's own scheduler pool, so that a heavy job cannot starve light ones. Among pools with
    equally many running tasks, the pool with the oldest batch is next (``dsdagster.schedule.OldestFirst``).

    A streaming query started inside keeps the pool for all its batches.
    """
    context = spark.sparkContext
    before = context.getLocalProperty("spark.scheduler.pool")
    context.setLocalProperty("spark.scheduler.pool", safe_name(job))
    try:
        yield
    finally:
        context.setLocalProperty("spark.scheduler.pool", before or "default")
