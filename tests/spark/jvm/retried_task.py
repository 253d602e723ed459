"""A process of its own whose Spark tries a task four times: one task fails after it has sent its rows.

Arguments: the broker, the topic that is read, a folder, then pairs of a topic that is written and how: ``stream`` or
``batches``, or one pair with ``cluster``. Prints the condition each run ends with; the last run of a pair ends well. On
the cluster the first task of each executor
fails after it has packed its rows, the first batch is too large, and its first two repetitions fail: when all is sent,
and when all is committed. Then it prints how many state stores were open while a query that counts ran, and when it
had ended, whether its executors have the engine's Python and another one, and how many of them do not answer while they
are busy.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.errors import DsError
from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.cluster import PYTHON_PROPERTY, check_executors, close_ended_stores
from ds_dagster.spark.faults import classify
from ds_dagster.spark.jvm import KAFKA_SINK, operators
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.session import build_session

JOB = "retried"
COLUMNS = ("value", "value AS key", "partition", "array(named_struct('key', 'copy', 'value', value)) AS headers")
CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Ddsdagster.fault=after-pack@0",
}


def attempt(spark: SparkSession, place: str, address: str, origin: str, target: str, mode: str) -> str:
    """Everything that is there; gives the condition it fails with, or an empty text."""
    kafka = {"kafka.bootstrap.servers": address}
    account = Account.of(spark, place, checkpoint_tip(spark, place), {})
    spec = WriteSpec("stream", target, "exactly_once", transactional=True)
    options = {**kafka, "topic": target, "transactional.id": f"{JOB}-{mode}", "marker.group": f"{JOB}-{mode}-1"}
    settled = account.settle(spec, SinkIdentity(JOB, 1), options)
    reader = spark.readStream.format("kafka").name("rows").options(**kafka).option("subscribe", origin)
    frame = reader.option("startingOffsets", "earliest").load().selectExpr(*COLUMNS)
    writer = frame.writeStream.option("checkpointLocation", place).trigger(availableNow=True)

    def put(batch: DataFrame, epoch: int) -> None:
        batch.write.format(KAFKA_SINK).options(**settled).option("epoch", str(epoch)).mode("append").save()

    writer = writer.format(KAFKA_SINK).options(**settled) if mode == "stream" else writer.foreachBatch(put)
    query = writer.start()
    try:
        query.awaitTermination()
    except StreamingQueryException as problem:
        return classify(problem).condition
    finally:
        operators(spark).release_transaction(options["transactional.id"])
    return ""


def open_stores(spark: SparkSession, root: Path, address: str, origin: str) -> tuple[int, int, int]:
    """How many were closed while a query runs, when it has ended, and after that."""
    reader = spark.readStream.format("kafka").name("counted").option("kafka.bootstrap.servers", address)
    frame = reader.option("subscribe", origin).option("startingOffsets", "earliest").load().groupBy("value").count()
    writer = frame.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(root / "counted")).start()
    query.processAllAvailable()
    while_it_runs = close_ended_stores(spark)[0]
    query.stop()
    return while_it_runs, close_ended_stores(spark)[0], close_ended_stores(spark)[0]


def silent_while_busy(spark: SparkSession, go_on: Path) -> int:
    """How many executors do not answer while tasks hold all cores, until a file is there."""
    context, file = spark.sparkContext, str(go_on)

    def hold(_: int) -> None:
        while not os.path.exists(file):  # noqa: PTH110, the executors' Python
            time.sleep(0.05)

    def active() -> int:
        stages = [
            context.statusTracker().getStageInfo(number) for number in context.statusTracker().getActiveStageIds()
        ]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    holding = Thread(target=lambda: context.parallelize(range(2), 2).foreach(hold))
    holding.start()
    while active() < 2:
        time.sleep(0.05)
    silent = close_ended_stores(spark)[1]
    go_on.touch()
    holding.join()
    return len(silent)


def probed(spark: SparkSession, settings: Settings) -> tuple[str, str]:
    """What jobs that run Python are refused for: with the engine's Python, and with one that is nowhere."""

    def refused(**properties: str) -> str:
        try:
            check_executors(spark, replace(settings, spark=properties), runs_python=True)
        except DsError as problem:
            return problem.condition
        return "nothing"

    return refused(), refused(**{PYTHON_PROPERTY: str(settings.root / "python")})


def main() -> None:
    address, origin, folder, *targets = sys.argv[1:]
    root, modes = Path(folder), targets[1::2]
    is_cluster = modes == ["cluster"]
    engine = EngineSettings(master="local-cluster[2,1,1024]" if is_cluster else "local[2,4]", batch_megabytes=1)
    engine = replace(engine, kafka_writers="driver")
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="k", engine=engine)
    settings = replace(settings, spark=CLUSTER if is_cluster else {})
    spark = build_session(settings, jars=driver_jars(), app_name="retried task")
    spark.sparkContext.setLogLevel("OFF")
    for target, mode in zip(targets[::2], modes, strict=True):
        run = partial(attempt, spark, str(root / f"checkpoint-{mode}"), address, origin, target, mode)
        if is_cluster:
            print(run())
            spark.sparkContext._jsc.sc().conf().set("spark.dsdagster.batchMegabytes", "64")
        for fault in ("after-send@0", "after-commit@0") if is_cluster else ("after-send@0",):
            operators(spark).set_fault(fault)
            print(run())
        assert run() == ""
    if is_cluster:
        print(*open_stores(spark, root, address, origin))
        print(*probed(spark, settings))
        print(silent_while_busy(spark, root / "go_on"))
    spark.stop()


if __name__ == "__main__":
    main()
