"""A process of its own that copies a topic to another one and counts its rows by key, on a Spark cluster.

Arguments: the broker, the topic that is read, the topic of the copy, the topic of the counts, a folder, the master, and
what fails (``halt:after-decision@2``; empty: nothing). It runs until it is killed. It starts queries that fail again,
as the engine does, and prints their conditions; it ends if rows are lost.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.errors import DsError
from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.faults import SPARK_ERRORS, classify
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
    # the first task of each executor that has prepared its transaction fails, and is tried again
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-Ddsdagster.fault=after-prepare@*",
}
ENDS = ("KAFKA_PREPARED_GONE", "SPARK_LOST")
COUNTED = ("CAST(k AS BINARY) AS key", "CAST(to_json(named_struct('k', k, 'n', n)) AS BINARY) AS value")


@dataclass
class Job:
    """A query that writes a frame to a topic exactly once, started as the engine starts it."""

    spark: SparkSession
    place: str
    address: str
    name: str
    frame: DataFrame
    target: str
    query: StreamingQuery | None = None

    @property
    def id(self) -> str:
        return f"{self.target}-{self.name}"

    def start(self) -> None:
        account = Account.of(self.spark, self.place, checkpoint_tip(self.spark, self.place), {})
        spec = WriteSpec("stream", self.target, "exactly_once", transactional=True)
        options = {"kafka.bootstrap.servers": self.address, "topic": self.target}
        options |= {"transactional.id": self.id, "marker.group": f"{self.id}-1"}
        settled = account.settle(spec, SinkIdentity(self.name, 1), options)
        account.close()
        writer = self.frame.writeStream.format(KAFKA_SINK).options(**settled).outputMode("update")
        self.query = writer.queryName(self.name).option("checkpointLocation", self.place).start()

    def keep(self) -> str:
        """Start it if it does not run; the condition of its failure."""
        try:
            if self.query is not None and self.query.isActive:
                return ""
            if self.query is not None:
                failure, self.query = self.query.exception(), None
                operators(self.spark).release_transaction(self.id)
                return classify(failure).condition if failure is not None else ""
            self.start()
        except (DsError, *SPARK_ERRORS, ConnectionError) as problem:
            return problem.condition if isinstance(problem, DsError) else classify(problem).condition
        return ""


def main() -> None:
    address, origin, copy, counts, folder, master, fault = sys.argv[1:]
    root = Path(folder)
    engine = EngineSettings(master=master)
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="k", engine=engine)
    spark = build_session(replace(settings, spark=SPARK), jars=driver_jars(), app_name="prepared tasks")
    spark.sparkContext.setLogLevel("OFF")
    operators(spark).set_fault(fault)
    rows = spark.readStream.format("kafka").name("rows").option("kafka.bootstrap.servers", address)
    rows = rows.option("subscribe", origin).option("startingOffsets", "earliest")
    frame = rows.option("maxOffsetsPerTrigger", "2000").load()
    keys = frame.groupBy(frame.key.cast("string").alias("k")).count().withColumnRenamed("count", "n")
    jobs = [
        Job(spark, str(root / COPY), address, COPY, frame.selectExpr("key", "value"), copy),
        Job(spark, str(root / COUNTS), address, COUNTS, keys.selectExpr(*COUNTED), counts),
    ]
    while True:
        for job in jobs:
            condition = job.keep()
            if condition:
                print(job.name, condition, flush=True)
            if condition in ENDS:
                return
        time.sleep(0.2)


if __name__ == "__main__":
    main()
