"""What an exactly-once Kafka sink costs on a cluster: tasks that write in two phases, the driver, and at least once.

    python -m benchmarks.cluster_sinks [--rounds 3] [--rows 1200000] [--out benchmarks/out/cluster_sinks.json]

One ``local-cluster[2,1,1024]`` copies a topic of four partitions by each sink in turn, round after round, so that other
work on the machine slows all of them. Throughput: all rows in batches of 200,000. Latency: the duration of batches of
ten rows each, one after the other, by Spark's own report.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from benchmarks.measure import say
from ds_dagster.jars import driver_jars
from ds_dagster.local.servers import down, up
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.jvm import KAFKA_SINK, operators
from ds_dagster.spark.session import KAFKA_WRITERS, build_session

OUT = Path(__file__).parent / "out" / "cluster_sinks.json"
SINKS: Mapping[str, tuple[str, str]] = {
    "at_least_once": ("kafka", "tasks"),
    "tasks": (KAFKA_SINK, "tasks"),
    "driver": (KAFKA_SINK, "driver"),
}
"""Name of a sink → format, and who writes."""
PARTITIONS = 4
AT_ONCE = 200_000
SMALL_BATCHES, SMALL_ROWS = 40, 10
SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
WRITTEN = {"kafka.linger.ms": "5", "kafka.compression.type": "lz4", "kafka.acks": "all"}


@dataclass
class Bench:
    """A broker, a cluster, and topics by a running number."""

    address: str
    spark: SparkSession
    folder: Path
    count: int = 0

    def topic(self) -> str:
        self.count += 1
        name = f"t{self.count}"
        admin = AdminClient({"bootstrap.servers": self.address})  # its futures end with it
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        return name

    def send(self, topic: str, first: int, count: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self.address, "linger.ms": 5, "queue.buffering.max.messages": 2000000}
        )
        for number in range(first, first + count):
            value = json.dumps(
                {"id": number, "url": "/a/path/to/a/page", "user": f"User_{number % 1000}", "pad": "x" * 80}
            )
            producer.produce(topic, value.encode(), partition=number % PARTITIONS)
            producer.poll(0)
        producer.flush(60)

    def started(self, sink: str, origin: str, most: int, name: str) -> object:
        target, (format_, writers) = self.topic(), SINKS[sink]
        self.spark.sparkContext._jsc.sc().conf().set(KAFKA_WRITERS, writers)
        options = {"kafka.bootstrap.servers": self.address, "topic": target, **WRITTEN}
        if format_ == KAFKA_SINK:
            place = str(self.folder / name)
            options |= {"transactional.id": name, "marker.group": f"{name}/v1", "checkpoint": place, "sources": "{}"}
        reader = self.spark.readStream.format("kafka").name("rows").option("kafka.bootstrap.servers", self.address)
        reader = reader.option("subscribe", origin).option("startingOffsets", "earliest")
        frame = reader.option("kafka.fetch.max.wait.ms", "10").option("maxOffsetsPerTrigger", str(most)).load()
        writer = frame.selectExpr("key", "value").writeStream.format(format_).options(**options)
        return writer.option("checkpointLocation", str(self.folder / name)).start()

    def rate(self, sink: str, origin: str, name: str) -> float:
        """Rows per second of the batches after the first."""
        query = self.started(sink, origin, AT_ONCE, name)
        query.processAllAvailable()  # type: ignore[attr-defined]
        reports = [one for one in query.recentProgress if one["numInputRows"]][1:]  # type: ignore[attr-defined]
        query.stop()  # type: ignore[attr-defined]
        operators(self.spark).release_transaction(name)
        millis = sum(one["durationMs"]["triggerExecution"] for one in reports)
        return 1000.0 * float(sum(one["numInputRows"] for one in reports)) / float(millis)

    def latencies(self, sink: str, name: str) -> list[float]:
        """Milliseconds of small batches, without the first ten."""
        origin = self.topic()
        query = self.started(sink, origin, AT_ONCE, name)
        for number in range(SMALL_BATCHES):
            self.send(origin, number * SMALL_ROWS, SMALL_ROWS)
            query.processAllAvailable()  # type: ignore[attr-defined]
        reports = [one for one in query.recentProgress if one["numInputRows"]][10:]  # type: ignore[attr-defined]
        query.stop()  # type: ignore[attr-defined]
        operators(self.spark).release_transaction(name)
        return [float(one["durationMs"]["triggerExecution"]) for one in reports]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        engine = EngineSettings(master="local-cluster[2,1,1024]")
        settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="k", engine=engine)
        try:
            address = up(folder, only=("kafka",)).kafka
            spark = build_session(replace(settings, spark=SPARK), jars=driver_jars(), app_name="cluster sinks")
            spark.sparkContext.setLogLevel("OFF")
            results = measured(Bench(str(address), spark, folder), arguments.rounds, arguments.rows)
            spark.stop()
        finally:
            down(folder)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=1))


def measured(bench: Bench, rounds: int, rows: int) -> dict[str, dict[str, object]]:
    """Rates of each round, and the latencies of all rounds; the first round warms up and is left out."""
    origin = bench.topic()
    bench.send(origin, 0, rows)
    rates: dict[str, list[float]] = {name: [] for name in SINKS}
    millis: dict[str, list[float]] = {name: [] for name in SINKS}
    for number in range(rounds + 1):
        for sink in SINKS:
            begun = time.monotonic()
            rate = bench.rate(sink, origin, f"rate-{sink}-{number}")
            latencies = bench.latencies(sink, f"small-{sink}-{number}")
            median, seconds = statistics.median(latencies), time.monotonic() - begun
            say(f"{number} {sink}: {rate:,.0f} rows/s, p50 {median:.0f} ms ({seconds:.0f} s)")
            if number:
                rates[sink].append(rate)
                millis[sink] += latencies
    return {
        name: {
            "rows_per_second": rates[name],
            "p50_millis": statistics.median(millis[name]),
            "p95_millis": sorted(millis[name])[int(len(millis[name]) * 0.95)],
        }
        for name in SINKS
    }


if __name__ == "__main__":
    main()
