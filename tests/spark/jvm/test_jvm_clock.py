"""The engine's clock on real inputs: looks, silence, backlogs, open transactions, frozen ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from ds_dagster.spark.clocks.config import ClockConfig, InputTime
from ds_dagster.spark.clocks.ticks import temporal_input, timed_reader, with_ticks

pytestmark = [pytest.mark.spark, pytest.mark.servers]
SECOND = 1_000_000
BROKER_TIME = InputTime("broker", bound_micros=1_000_000)
"""On a busy machine a record comes some hundred milliseconds after its stamp: within the bound it is not late."""
YEAR_AGO = 1_700_000_000  # seconds; far from any wall clock
FEW_BATCHES = {"processingTime": "200 milliseconds"}
"""Trigger of a query whose topic always has more to read: a batch for each record would tell no more."""


def column_time(bound: float, idle: float = 0.5) -> InputTime:
    return InputTime("record", bound_micros=int(bound * SECOND), idle_micros=int(idle * SECOND))


def register(lab: Any, span: float, **inputs: InputTime) -> None:
    lab.operators.register_clock(
        lab.job, ClockConfig(inputs=inputs, span_micros=int(span * SECOND), step_micros=250_000)
    )


def read(lab: Any, broker: Any, name: str, topic: str, *, column: bool, guard: bool = False, **extra: str) -> DataFrame:
    """Rows ``(ts, k)`` of a topic whose values are ``{"t": seconds, "k": text}``; ``ts`` reports to the clock."""
    options = broker.reading(topic, **extra)
    raw = timed_reader(lab.spark, lab.job, name, inner="kafka", options=options, source_name=f"in_{name}", guard=guard)
    fields = fn.from_json(fn.col("value").cast("string"), "t DOUBLE, k STRING")
    event = fn.timestamp_micros((fields["t"] * SECOND).cast("long")) if column else fn.col("timestamp")
    seen = lab.operators.seen(lab.job, name, event, fn.col("partition"))
    return raw.select(seen.alias("ts"), fields["k"].alias("k"))


def timed(lab: Any, frame: DataFrame, name: str) -> DataFrame:
    return with_ticks(lab.spark, lab.job, frame, "ts", f"ticks_{name}")


def value(t: float, k: str = "x") -> str:
    return json.dumps({"t": t, "k": k})


def per_window(frame: DataFrame, seconds: float) -> DataFrame:
    counted = frame.groupBy(fn.window("ts", f"{seconds * 1000:.0f} milliseconds")).count()
    return counted.select(fn.unix_timestamp("window.start"), "count")


def snapshot(lab: Any) -> dict[str, Any]:
    found = lab.operators.clock_snapshot(lab.job)
    assert found is not None
    return dict(found)


def test_broker_time_closes_windows_without_further_rows_and_then_rests(lab: Any, broker: Any, eventually: Any) -> None:
    topic = broker.topic(2, message_timestamp_type="LogAppendTime")
    register(lab, 1, a=BROKER_TIME)
    query = lab.start(per_window(timed(lab, read(lab, broker, "a", topic, column=False), "a"), 1))
    query.processAllAvailable()
    broker.send(topic, [(0, value(0))] * 5)
    eventually(lambda: sum(row[1] for row in lab.emitted) == 5)
    eventually(lambda: not snapshot(lab)["pending"])
    assert snapshot(lab)["inputs"]["a"]["lag_records"] == 0
    batches = query.lastProgress["batchId"]
    query.processAllAvailable()
    assert query.lastProgress["batchId"] - batches <= 2
    steady = query.lastProgress["batchId"]
    time.sleep(1)  # nothing may happen in this second
    assert query.lastProgress["batchId"] == steady


def test_time_moves_under_steady_load(lab: Any, broker: Any, eventually: Any) -> None:
    """The reader never stands at the end when it looks: the end it saw before is what it has passed."""
    topic = broker.topic(2, message_timestamp_type="LogAppendTime")
    register(lab, 0.5, a=BROKER_TIME)
    frame = timed(lab, read(lab, broker, "a", topic, column=False), "a")
    query = lab.start(per_window(frame, 0.5), **FEW_BATCHES)
    producer = broker.producer()
    sent = 0

    def feed() -> bool:
        nonlocal sent
        producer.produce(topic, value(0).encode(), partition=0)
        producer.poll(0)
        sent += 1
        return len(lab.emitted) >= 3

    eventually(feed)
    producer.flush(10)
    eventually(lambda: sum(row[1] for row in lab.emitted) == sent)
    assert query.isActive


@pytest.mark.parametrize(("ahead", "silent"), [(5, True), (-5, False)])
def test_a_machine_whose_clock_is_not_the_brokers(
    lab: Any, broker: Any, eventually: Any, late_rows: Any, ahead: int, silent: bool
) -> None:
    """Rows are complete up to the broker's time, not up to ours: also where looks at an empty topic came first."""
    topic = broker.topic(1, message_timestamp_type="LogAppendTime")
    register(lab, 0.5, a=BROKER_TIME)
    lab.spark._jvm.dsdagster.time.Clocks.setAhead(ahead * SECOND)
    try:
        frame = timed(lab, read(lab, broker, "a", topic, column=False), "a")
        query = lab.start(per_window(frame, 0.5), **FEW_BATCHES)
        if silent:
            query.processAllAvailable()
        producer = broker.producer()
        sent = 0

        def feed() -> bool:
            nonlocal sent
            producer.produce(topic, value(0).encode(), partition=0)
            producer.poll(0)
            sent += 1
            return len(lab.emitted) >= 3

        eventually(feed)
        assert (snapshot(lab)["inputs"]["a"]["ahead_micros"] > 4 * SECOND) == (ahead > 0)
        producer.flush(10)
        eventually(lambda: sum(row[1] for row in lab.emitted) == sent)
        assert late_rows(query) == 0
    finally:
        lab.operators.set_now(None)


def test_an_open_upstream_transaction_holds_time(lab: Any, broker: Any, eventually: Any, late_rows: Any) -> None:
    topic = broker.topic(1, message_timestamp_type="LogAppendTime")
    register(lab, 1, a=BROKER_TIME)
    frame = read(lab, broker, "a", topic, column=False, guard=True)
    query = lab.start(per_window(timed(lab, frame, "a"), 1))
    query.processAllAvailable()
    producer = broker.producer(**{"transactional.id": lab.job})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value(0).encode(), partition=0)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, value(0).encode(), partition=0)
    assert producer.flush(30) == 0
    opened = time.time()
    eventually(lambda: snapshot(lab)["inputs"]["a"]["open_transaction"])
    eventually(lambda: time.time() > opened + 3)
    assert lab.emitted == []
    producer.commit_transaction(30)
    eventually(lambda: sum(row[1] for row in lab.emitted) == 2)
    assert late_rows(query) == 0
    assert not snapshot(lab)["inputs"]["a"]["open_transaction"]


def test_partitions_hours_apart_in_a_rate_limited_backfill_drop_nothing(
    lab: Any, broker: Any, eventually: Any, late_rows: Any
) -> None:
    topic = broker.topic(2)
    rows = [(p, value(YEAR_AGO + 7200 * p + i)) for i in range(300) for p in (0, 1)]
    broker.send(topic, rows)
    register(lab, 60, a=column_time(5))
    frame = read(lab, broker, "a", topic, column=True, maxOffsetsPerTrigger="100")
    query = lab.start(per_window(timed(lab, frame, "a"), 60))
    # what stays open: windows that end after the newest row minus the bound
    open_from = (YEAR_AGO + 7200 + 299 - 5) // 60 * 60
    closed = sum(1 for _, text in rows if json.loads(text)["t"] < open_from)
    eventually(lambda: sum(row[1] for row in lab.emitted) == closed)
    assert late_rows(query) == 0


def test_a_partition_with_backlog_but_no_rows_yet_holds_time(lab: Any, broker: Any, late_rows: Any) -> None:
    """Spark divides a batch by backlog: the small partition's rows come in the last batches."""
    topic = broker.topic(2)
    broker.send(topic, [(0, value(YEAR_AGO + i)) for i in range(500)])
    broker.send(topic, [(1, value(YEAR_AGO + 2 * i)) for i in range(5)])
    register(lab, 60, a=column_time(0))
    frame = read(lab, broker, "a", topic, column=True, maxOffsetsPerTrigger="50")
    query = lab.start(per_window(timed(lab, frame, "a"), 60), availableNow=True)
    assert query.awaitTermination(120)
    assert late_rows(query) == 0
    closed = sum(1 for t in [*range(500), *range(0, 10, 2)] if YEAR_AGO + t < (YEAR_AGO + 499) // 60 * 60)
    assert sum(row[1] for row in lab.take()) == closed


def test_left_join_with_a_silent_side_in_old_column_time(
    lab: Any, broker: Any, eventually: Any, late_rows: Any
) -> None:
    left, right = broker.topic(2), broker.topic(2)
    broker.send(left, [(i % 2, value(YEAR_AGO + i, f"k{i}")) for i in range(200)])
    broker.send(right, [(i % 2, value(YEAR_AGO + i + 1, f"k{i}")) for i in range(0, 40, 2)])
    register(lab, 10, a=column_time(2), b=column_time(2))
    first = timed(lab, read(lab, broker, "a", left, column=True, maxOffsetsPerTrigger="50"), "a")
    second = timed(lab, read(lab, broker, "b", right, column=True), "b")
    one, other = first.selectExpr("ts lt", "k lk"), second.selectExpr("ts rt", "k rk")
    within = "lk = rk AND rt BETWEEN lt - INTERVAL 10 SECONDS AND lt + INTERVAL 10 SECONDS"
    query = lab.start(one.join(other, fn.expr(within), "left").select("lk", "rk"))
    matched = {f"k{i}": f"k{i}" for i in range(0, 40, 2)}
    sure = {f"k{i}": matched.get(f"k{i}") for i in range(200) if i + 10 < 199 - 2 or f"k{i}" in matched}
    eventually(lambda: len(lab.emitted) >= len(sure))  # all fall idle: time stands at the furthest partition
    query.processAllAvailable()
    assert {row[0] for row in lab.emitted} == set(sure)
    assert dict(lab.take()) == sure
    assert late_rows(query) == 0
    assert snapshot(lab)["inputs"]["b"]["state"] == "idle"


def test_available_now_follows_the_batches(lab: Any, broker: Any, late_rows: Any) -> None:
    topic = broker.topic(2)
    broker.send(topic, [(i % 2, value(YEAR_AGO + i / 10)) for i in range(400)])
    register(lab, 10, a=column_time(1))
    frame = read(lab, broker, "a", topic, column=True, maxOffsetsPerTrigger="100")
    query = lab.start(per_window(timed(lab, frame, "a"), 10), availableNow=True)
    assert query.awaitTermination(120)
    assert late_rows(query) == 0
    assert lab.take() == [(YEAR_AGO, 100), (YEAR_AGO + 10, 100), (YEAR_AGO + 20, 100)]
    broker.send(topic, [(0, value(YEAR_AGO + 60))])
    register(lab, 10, a=column_time(1))
    frame = read(lab, broker, "a", topic, column=True)
    query = lab.start(per_window(timed(lab, frame, "a"), 10), availableNow=True)
    assert query.awaitTermination(120)
    assert lab.take() == [(YEAR_AGO + 30, 100)]


def test_a_restart_takes_its_time_from_the_checkpoint(lab: Any, broker: Any, eventually: Any) -> None:
    """The window that was open when the job stopped closes without a new row, and no row comes twice."""
    topic = broker.topic(1, message_timestamp_type="LogAppendTime")

    def begin() -> Any:
        register(lab, 3, a=BROKER_TIME)
        return lab.start(per_window(timed(lab, read(lab, broker, "a", topic, column=False), "a"), 3))

    query = begin()
    query.processAllAvailable()
    broker.send(topic, [(0, value(0))] * 3)
    eventually(lambda: snapshot(lab)["inputs"]["a"]["newest_micros"] is not None)
    query.processAllAvailable()
    before = snapshot(lab)["time_micros"] or 0
    query.stop()
    query = begin()
    eventually(lambda: (snapshot(lab)["time_micros"] or 0) > before and not snapshot(lab)["pending"])
    query.processAllAvailable()
    assert sum(row[1] for row in lab.emitted) == 3


def test_a_temporal_join_over_two_inputs_with_one_tick_source(lab: Any, broker: Any, eventually: Any) -> None:
    clicks, users = broker.topic(2), broker.topic(1)
    broker.send(users, [(0, value(YEAR_AGO + 10 * i, "a")) for i in range(5)])
    broker.send(clicks, [(i % 2, value(YEAR_AGO + i, "a")) for i in range(60)])
    register(lab, 0, clicks=column_time(1), users=column_time(1))
    row = "struct<t:bigint>"

    def side(name: str, topic: str, number: int) -> DataFrame:
        mine, other = ("l", "r") if number == 0 else ("r", "l")
        return read(lab, broker, name, topic, column=True).selectExpr(
            "named_struct('k', k) k", f"{number} side", "unix_micros(ts) ts", "'0' ord", "false deleted",
            f"named_struct('t', unix_seconds(ts)) {mine}", f"CAST(NULL AS {row}) {other}", "ts et",
        )  # fmt: skip

    frame = temporal_input(lab.spark, lab.job, (side("clicks", clicks, 0), side("users", users, 1)), "ticks")
    joined = lab.operators.temporal_join(frame, outer=False, job=lab.job)
    lab.start(joined.selectExpr(f"l.t - {YEAR_AGO}L t", f"r.t - {YEAR_AGO}L v"))
    expected = [(i, min(i // 10 * 10, 40)) for i in range(58)]  # the users fall silent at 40
    eventually(lambda: len(lab.emitted) >= len(expected))
    assert sorted(lab.take()) == expected
    assert snapshot(lab)["late"] == {"late_rows": 0, "late_versions": 0}


class _Line(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        super().__init__((first, last))
        self.first, self.last = first, last


class _FileReader(DataSourceStreamReader):
    """Lines of a file as shard ``s``; the file ``until`` beside it says up to when they are complete. Its first batch
    has a position, no rows and no report, as that of a replication slot."""

    def __init__(self, options: dict[str, str]) -> None:
        self.path = Path(options["path"])
        self.looked = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"stream": {"s": {"after": "-1"}}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(3)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        after = int(start["stream"]["s"]["after"])
        self.looked = after >= 0
        lines = len(self.path.read_text().splitlines())
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else lines
        return {"stream": {"s": {"after": str(min(lines, after + most) if self.looked else 0)}}}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        until = self.path.with_name("until")
        found = {"s": {"complete_until": int(until.read_text())} if until.exists() else {}}
        return found if self.looked else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = (int(offset["stream"]["s"]["after"]) for offset in (start, end))
        return [_Line(max(first, 0), last)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
        assert isinstance(partition, _Line)
        for line in self.path.read_text().splitlines()[partition.first : partition.last]:
            yield "s", int(line)


class FileSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ds_test_file"

    def schema(self) -> str:
        return "shard string, ms bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _FileReader(self.options)


def test_a_python_source_tells_its_own_completeness(lab: Any, tmp_path: Path, eventually: Any, late_rows: Any) -> None:
    lab.spark.dataSource.register(FileSource)
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "rows"
    path.write_text("".join(f"{1_000_000 + 100 * i}\n" for i in range(10)))
    register(lab, 1, a=InputTime("broker", bound_micros=0))
    options = {"path": str(path)}
    raw = timed_reader(lab.spark, lab.job, "a", inner="ds_test_file", options=options, source_name="in_a")
    event = fn.timestamp_millis("ms")
    frame = raw.select(lab.operators.seen(lab.job, "a", event, fn.col("shard")).alias("ts"))
    query = lab.start(per_window(timed(lab, frame, "a"), 1))
    eventually(lambda: snapshot(lab)["inputs"]["a"]["newest_micros"] == 1_000_900_000)
    query.processAllAvailable()
    assert lab.emitted == []
    (folder / "until").write_text("1005000")
    eventually(lambda: lab.emitted == [(1000, 10)])
    assert late_rows(query) == 0
    eventually(lambda: not snapshot(lab)["pending"])
