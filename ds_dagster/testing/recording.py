"""Records the class archive: ``python -m ds_dagster.testing.recording FILE`` (see :mod:`ds_dagster.class_archive`).

A driver runs a case with every operator, loads the classes that a case on stores in memory does not use, and writes the
archive when its JVM ends.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.session import build_session
from ds_dagster.testing.runner import run_case

CASE = Path(__file__).with_name("recording.case.yaml")
EXIT_SECONDS = 240.0
_UNUSED = ("JsonConverter", "kafka/shaded/", "module-info", "package-info")
_INITIALIZED = ("org.apache.kafka.common.protocol.ApiKeys", "org.apache.kafka.common.protocol.Errors")
"""Classes of every Kafka client whose code makes a hundred others."""


def main() -> int:
    """Record into the file of the first argument; returns 1 if the case fails, else 0."""
    target = Path(sys.argv[1])
    jars = driver_jars()
    with tempfile.TemporaryDirectory(prefix="ds-record-") as folder:
        root = Path(folder)
        options = {"spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={target}", "spark.log.level": "OFF"}
        settings = Settings(
            root=root, sql=root, state=root, engine=EngineSettings(cores=2, memory="1g", durable=False), spark=options
        )
        spark = build_session(settings, jars=jars, app_name="recording")
        result = run_case(CASE, lambda: spark)
        _compile(spark)
        _load(spark, _names(jars))
        _load(spark, iter(_INITIALIZED), run=True)
        process = cast(Any, spark.sparkContext._gateway).proc
        spark.stop()
        process.stdin.close()
        process.wait(EXIT_SECONDS)
    for failure in result.failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if result.failures else 0


def _compile(spark: SparkSession) -> None:
    """Run a query that is compiled, as large batches are; those of the case are small."""
    keyed = spark.range(0, 10_000).withColumn("k", sf.col("id") % 7)
    keyed.groupBy("k").agg(sf.sum("id")).join(keyed, "k").orderBy("k").collect()


def _names(jars: tuple[Path, ...]) -> Iterator[str]:
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class") and not name.startswith("META-INF") and not any(u in name for u in _UNUSED):
                    yield name.removesuffix(".class").replace("/", ".")


def _load(spark: SparkSession, names: Iterator[str], *, run: bool = False) -> None:
    """Load classes; classes that need a missing jar are skipped. ``run``: run their initializers too."""
    jvm = cast(Any, spark._jvm)
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in names:
        try:
            jvm.java.lang.Class.forName(name, run, loader)
        except Py4JJavaError:
            continue


if __name__ == "__main__":
    sys.exit(main())
