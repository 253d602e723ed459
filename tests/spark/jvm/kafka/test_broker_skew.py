"""The bound of broker time by what is measured: clocks that differ, records that come late, clocks that are set.

The engine's clock stands still and is moved by hand; the topic's records have the timestamps that a broker with another
clock would have set at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ds_dagster.spark.clocks.config import ClockConfig, InputTime
from ds_dagster.spark.clocks.ticks import timed_reader, with_ticks

pytestmark = [pytest.mark.spark, pytest.mark.servers]
MILLI = 1000
SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
BOUND, LEAST = 500 * MILLI, 130 * MILLI
STEP = 2600 * MILLI
STEPS = 3  # over more than BrokerSkew.PROOF_MICROS
PARTITIONS = 8  # each of them has a look with every step: more than BrokerSkew.MEASURED_LOOKS
MEASURED = InputTime("broker", bound_micros=BOUND, least_bound_micros=LEAST)


class Stream:
    """Rows of topics in windows of a second, and the moment they are at."""

    def __init__(self, lab: Any, broker: Any, **inputs: InputTime) -> None:
        self.lab, self.broker, self.topic = lab, broker, broker.topic(PARTITIONS)
        self.sent, self.now = 0, BEGIN
        lab.operators.set_now(self.now)
        config = ClockConfig(inputs={"a": MEASURED, **inputs}, span_micros=SECOND, step_micros=0)
        lab.operators.register_clock(lab.job, config)
        self.producer: Producer = broker.producer()

    def read(self, name: str, topic: str, *, guard: bool = False) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.broker.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "20",
        }
        lab = self.lab
        raw = timed_reader(
            lab.spark, lab.job, name, inner="kafka", options=options, source_name=f"in_{name}", guard=guard
        )
        return raw.select(lab.operators.seen(lab.job, name, fn.col("timestamp"), fn.col("partition")).alias("ts"))

    def start(self, rows: DataFrame) -> None:
        rows = rows.coalesce(1)  # a task for each partition would take most of the time
        timed = with_ticks(self.lab.spark, self.lab.job, rows, "ts", "ticks")
        counted = timed.groupBy(fn.window("ts", "1 second")).count()
        self.query = self.lab.start(counted.select(fn.unix_timestamp("window.start"), "count"))
        self.query.processAllAvailable()

    def step(self, ahead: int, delay: int = 0, by: int = STEP) -> None:
        """Time goes on; then a record arrives in each partition that a clock ahead of ours has stamped before."""
        self.now += by
        self.lab.operators.set_now(self.now)
        self.query.processAllAvailable()
        self.send(self.now + ahead - delay)
        self.query.processAllAvailable()

    def send(self, stamp: int) -> None:
        """A record in each partition."""
        for partition in range(PARTITIONS):
            self.producer.produce(self.topic, b"", partition=partition, timestamp=stamp // MILLI)
            self.sent += 1
        assert self.producer.flush(10) == 0

    def behind(self) -> int:
        """How far event time is behind our clock once the last rows are read."""
        by = 1 * MILLI  # the next look; the last one was made before its rows were read
        self.now += by
        self.lab.operators.set_now(self.now)
        self.query.processAllAvailable()
        inputs = self.lab.operators.clock_snapshot(self.lab.job)["inputs"].values()
        return self.now - min(int(found["time_micros"]) for found in inputs)

    def all_counted(self, eventually: Callable[..., None]) -> bool:
        """Whether every row that was sent comes out of a window."""
        self.now += 10 * SECOND
        self.lab.operators.set_now(self.now)
        eventually(lambda: sum(row[1] for row in self.lab.emitted) >= self.sent)
        return sum(row[1] for row in self.lab.emitted) == self.sent


@pytest.fixture
def stream(lab: Any, broker: Any) -> Stream:
    made = Stream(lab, broker)
    made.start(made.read("a", made.topic))
    return made


@pytest.mark.parametrize("ahead", [pytest.param(300 * MILLI, marks=pytest.mark.slow), -300 * MILLI, 5 * SECOND])
def test_a_measured_broker_is_followed_by_the_least_bound(
    stream: Stream, eventually: Any, late_rows: Any, ahead: int
) -> None:
    """By the clock of the broker, whatever ours says; one like ours, or far behind it, is another test."""
    stream.step(ahead)
    assert stream.behind() >= BOUND - max(0, ahead)
    for _ in range(STEPS):
        stream.step(ahead)
    assert abs(stream.behind() + ahead - LEAST) <= 2 * MILLI
    assert stream.all_counted(eventually)
    assert late_rows(stream.query) == 0


def test_a_broker_behind_by_more_than_the_bound_is_not_measured(
    lab: Any, broker: Any, eventually: Any, late_rows: Any
) -> None:
    stream = Stream(lab, broker)
    stream.send(stream.now - 5 * SECOND)  # before its first record a broker is taken to have our clock
    stream.start(stream.read("a", stream.topic))
    for _ in range(STEPS):
        stream.step(-5 * SECOND)
    assert abs(stream.behind() - 5 * SECOND - BOUND) <= 2 * MILLI
    assert stream.all_counted(eventually)
    assert late_rows(stream.query) == 0


def test_records_that_come_long_after_their_stamp_keep_the_bound_wide(
    stream: Stream, eventually: Any, late_rows: Any
) -> None:
    """As where a follower of the broker is slow: the stamp is set before the record can be read."""
    for number in range(STEPS):
        stream.step(0, delay=200 * MILLI if number == 1 else 0)
    assert abs(stream.behind() - BOUND) <= 2 * MILLI
    for number in range(2):
        stream.step(0, delay=200 * MILLI if number == 1 else 0)
    assert stream.all_counted(eventually)
    assert late_rows(stream.query) == 0


def test_a_clock_that_is_set_makes_no_row_late(stream: Stream, eventually: Any, late_rows: Any) -> None:
    """The broker's, which was followed by the least bound: back by less than that, and forward by any time."""
    stream.step(0)
    assert stream.behind() >= BOUND
    for _ in range(STEPS):
        stream.step(0)
    assert abs(stream.behind() - LEAST) <= 2 * MILLI
    for _ in range(2):
        stream.step(-120 * MILLI)
    assert stream.behind() > 2 * LEAST
    for _ in range(2):
        stream.step(3 * SECOND)
    assert late_rows(stream.query) == 0
    assert stream.all_counted(eventually)
    assert late_rows(stream.query) == 0


def test_after_a_pause_the_bound_is_the_wide_one(stream: Stream, eventually: Any) -> None:
    """Clocks drift: what was measured minutes ago proves nothing."""
    for _ in range(STEPS):
        stream.step(0)
    stream.step(0, by=300 * SECOND)
    stream.now += 130 * SECOND
    stream.lab.operators.set_now(stream.now)
    stream.query.processAllAvailable()
    assert stream.behind() >= BOUND
    assert stream.all_counted(eventually)


def test_an_input_without_rows_is_known_by_its_brokers_other_partitions(lab: Any, broker: Any) -> None:
    """The partitions of one input and a topic that is silent have the same leader."""
    stream = Stream(lab, broker, b=MEASURED)
    rows = stream.read("a", stream.topic, guard=True)
    stream.start(rows.union(stream.read("b", broker.topic(1), guard=True)))
    stream.step(0)
    assert stream.behind() >= BOUND
    for _ in range(STEPS):
        stream.step(0)
    assert abs(stream.behind() - LEAST) <= 2 * MILLI


def test_a_bound_that_is_given_stays(lab: Any, broker: Any) -> None:
    stream = Stream(lab, broker, a=InputTime("broker", bound_micros=BOUND))
    stream.start(stream.read("a", stream.topic))
    for _ in range(STEPS):
        stream.step(0)
    assert abs(stream.behind() - BOUND) <= 2 * MILLI
