"""A process of its own whose Spark tries a task four times: one task fails after it has sent its rows.

Arguments: the broker, the topic that is read, the topic that is written, ``stream`` or ``batches``, a folder. Prints
the condition the first run ends with; the second run ends well.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.faults import classify
from ds_dagster.spark.jvm import KAFKA_SINK, operators
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.session import build_session

JOB = "retried"


def attempt(spark: SparkSession, place: str, address: str, origin: str, target: str, mode: str) -> str:
    """Everything that is there; gives the condition it fails with, or an empty text."""
    kafka = {"kafka.bootstrap.servers": address}
    account = Account.of(spark, place, checkpoint_tip(spark, place), {})
    spec = WriteSpec("stream", target, "exactly_once", transactional=True)
    options = {**kafka, "topic": target, "transactional.id": f"{JOB}-{mode}", "marker.group": f"{JOB}-{mode}-1"}
    settled = account.settle(spec, SinkIdentity(JOB, 1), options)
    reader = spark.readStream.format("kafka").name("rows").options(**kafka).option("subscribe", origin)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
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


def main() -> None:
    address, origin, target, mode, folder = sys.argv[1:]
    root = Path(folder)
    engine = EngineSettings(master="local[2,4]")
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="k", engine=engine)
    spark = build_session(settings, jars=driver_jars(), app_name="retried task")
    spark.sparkContext.setLogLevel("OFF")
    operators(spark).set_fault("after-send@0")
    print(attempt(spark, str(root / "checkpoint"), address, origin, target, mode))
    assert attempt(spark, str(root / "checkpoint"), address, origin, target, mode) == ""
    spark.stop()


if __name__ == "__main__":
    main()
