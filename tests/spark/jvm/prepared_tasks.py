"""A process of its own that copies a topic to another one and counts its rows by key, on a Spark cluster.

Arguments: the broker, the topic that is read, the topic of the copy, the topic of the counts, a folder, the master, and
what fails (``halt:after-decision@2``; empty: nothing). It runs until it is killed or a query fails, and then prints the
condition.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.errors import DsError
from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.faults import classify
from ds_dagster.spark.jvm import KAFKA_SINK, operators
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.session import build_session

COPY, COUNTS = "copied", "counted"
SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "768m",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
COUNTED = ("CAST(k AS BINARY) AS key", "CAST(to_json(named_struct('k', k, 'n', n)) AS BINARY) AS value")


def started(spark: SparkSession, root: Path, address: str, name: str, frame: DataFrame, target: str) -> None:
    """The query that writes a frame to a topic exactly once, as the engine starts it."""
    place = str(root / name)
    account = Account.of(spark, place, checkpoint_tip(spark, place), {})
    spec = WriteSpec("stream", target, "exactly_once", transactional=True)
    options = {"kafka.bootstrap.servers": address, "topic": target}
    options |= {"transactional.id": f"{target}-{name}", "marker.group": f"{target}-{name}-1"}
    settled = account.settle(spec, SinkIdentity(name, 1), options)
    account.close()
    writer = frame.writeStream.format(KAFKA_SINK).options(**settled).outputMode("update")
    writer.queryName(name).option("checkpointLocation", place).start()


def main() -> None:
    address, origin, copy, counts, folder, master, fault = sys.argv[1:]
    root = Path(folder)
    engine = EngineSettings(master=master)
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="k", engine=engine)
    spark = build_session(replace(settings, spark=SPARK), jars=driver_jars(), app_name="prepared tasks")
    spark.sparkContext.setLogLevel("OFF")
    operators(spark).set_fault(fault)
    try:
        rows = spark.readStream.format("kafka").name("rows").option("kafka.bootstrap.servers", address)
        rows = rows.option("subscribe", origin).option("startingOffsets", "earliest")
        frame = rows.option("maxOffsetsPerTrigger", "2000").load()
        started(spark, root, address, COPY, frame.selectExpr("key", "value"), copy)
        keys = frame.groupBy(frame.key.cast("string").alias("k")).count().withColumnRenamed("count", "n")
        started(spark, root, address, COUNTS, keys.selectExpr(*COUNTED), counts)
        print("running", flush=True)
        spark.streams.awaitAnyTermination()
    except (StreamingQueryException, DsError) as problem:
        print(problem.condition if isinstance(problem, DsError) else classify(problem).condition, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
