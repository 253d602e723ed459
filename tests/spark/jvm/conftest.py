"""A session of its own per test, queries that collect what they emit, and one real Kafka broker."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.spark.jvm import Operators, operators
from tests.buckets import SIZES, buckets_of

STREAMING = "org.apache.spark.sql.execution.streaming"
DEADLINE = 150.0

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Python sources run in the interpreter of the tests


def eventually(check: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Poll until ``check`` holds; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "the deadline passed"
        time.sleep(0.02)


@dataclass
class Memory:
    """A source that is fed by hand: rows of text."""

    spark: SparkSession
    stream: Any = None
    name: str = field(default_factory=lambda: f"m_{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        jvm: Any = self.spark._jvm
        made = getattr(getattr(jvm.org.apache.spark.sql.execution.streaming.runtime, "MemoryStream$"), "MODULE$")
        self.stream = made.apply(self.spark._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.STRING())

    def add(self, *rows: str) -> None:
        jvm: Any = self.spark._jvm
        values = jvm.java.util.ArrayList()
        for row in rows:
            values.add(row)
        self.stream.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(values))

    def frame(self) -> DataFrame:
        return DataFrame(self.stream.toDF(), self.spark)


@dataclass
class Lab:
    """A session of its own, the operators, queries that collect what they emit."""

    spark: SparkSession
    root: Path
    job: str = field(default_factory=lambda: f"job_{uuid.uuid4().hex[:8]}")
    queries: list[StreamingQuery] = field(default_factory=list)
    emitted: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def operators(self) -> Operators:
        return operators(self.spark)

    def start(
        self,
        frame: DataFrame,
        name: str = "query",
        fail: Callable[[list[Any]], bool] | None = None,
        mode: str = "append",
        **trigger: Any,
    ) -> StreamingQuery:
        """Run into :attr:`emitted`; a batch for which ``fail`` holds is computed and then fails."""

        def keep(batch: DataFrame, number: int) -> None:
            rows = [tuple(row) for row in batch.collect()]
            if fail is not None and fail(rows):
                raise RuntimeError("injected")
            self.emitted.extend(rows)

        writer = frame.writeStream.foreachBatch(keep).outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.root / name))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.queries.append(query)
        return query

    def step(self, query: StreamingQuery) -> list[tuple[Any, ...]]:
        """What comes out until nothing is left to do, sorted."""
        query.processAllAvailable()
        return self.take()

    def take(self) -> list[tuple[Any, ...]]:
        rows = sorted(self.emitted, key=repr)
        self.emitted.clear()
        return rows

    def close(self) -> None:
        for query in self.queries:
            query.stop()
        self.operators.set_now(None)
        self.operators.remove_clock(self.job)


def dropped(query: StreamingQuery) -> int:
    """Rows Spark dropped behind the watermark."""
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in json.loads(progress.json)["stateOperators"]
    )


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(spark.newSession(), tmp_path)
    rocks = f"{STREAMING}.state.RocksDBStateStoreProvider"
    made.spark.conf.set("spark.sql.streaming.stateStore.providerClass", rocks)
    yield made
    made.close()


@pytest.fixture(params=SIZES)
def buckets(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """What operators keep of a key is in many buckets, and with the long tests in one value as it usually is."""
    with buckets_of(spark, request.param):
        yield


@pytest.fixture
def late_rows() -> Callable[[StreamingQuery], int]:
    """Rows Spark dropped behind the watermark of a query."""
    return dropped


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., None]:
    """Poll until a check holds."""
    return eventually


@pytest.fixture
def memory(lab: Lab) -> Callable[[], Memory]:
    return lambda: Memory(lab.spark)


@dataclass
class Broker:
    """A real broker and the few calls tests make."""

    address: str

    def topic(self, partitions: int, name: str = "", **config: str) -> str:
        name = name or f"t_{uuid.uuid4().hex[:8]}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        admin = AdminClient({"bootstrap.servers": self.address})  # its futures end with it
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        return name

    def reading(self, topic: str, **extra: str) -> dict[str, str]:
        """Options of Spark's source of Kafka: all committed records of a topic."""
        return {
            "kafka.bootstrap.servers": self.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "20",
            **extra,
        }

    def producer(self, **options: Any) -> Producer:
        return Producer({"bootstrap.servers": self.address, "linger.ms": 0, **options})

    def send(self, topic: str, rows: Sequence[tuple[int, str]], times: Sequence[int] | None = None) -> None:
        """Rows as (partition, value), with record timestamps in milliseconds if given."""
        producer = self.producer()
        for index, (partition, value) in enumerate(rows):
            extra = {} if times is None else {"timestamp": times[index]}
            producer.produce(topic, value.encode(), partition=partition, **extra)
            producer.poll(0)
        assert producer.flush(30) == 0

    def ends(self, topic: str, isolation: str) -> list[int]:
        reader = Consumer(
            {"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex, "isolation.level": isolation}
        )
        try:
            partitions = sorted(reader.list_topics(topic, 30).topics[topic].partitions)
            return [reader.get_watermark_offsets(TopicPartition(topic, one), 30)[1] for one in partitions]
        finally:
            reader.close()

    def read(self, topic: str) -> list[Any]:
        """All committed messages."""
        reader = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        partitions = sorted(reader.list_topics(topic, 30).topics[topic].partitions)
        reader.assign([TopicPartition(topic, one, 0) for one in partitions])
        found: list[Any] = []
        ended: set[int] = set()
        end = time.monotonic() + DEADLINE
        while len(ended) < len(partitions):
            assert time.monotonic() < end, "the topic could not be read to its end"
            for message in reader.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message)
                else:
                    ended.add(message.partition())
        reader.close()
        return found


@pytest.fixture(scope="session")
def broker(local_servers: Callable[..., LocalAddresses]) -> Broker:
    return Broker(local_servers("kafka").kafka)
