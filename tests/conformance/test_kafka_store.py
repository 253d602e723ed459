"""Kafka as a source and a sink: where a query begins, records that are gone, lag, keys in every format, headers."""

from __future__ import annotations

import json
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.progress import BatchProgress, read_progress
from ds_dagster.spark.queries.query import Trigger
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.registry import KINDS
from tests.conformance.conftest import patient

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
DEADLINE = 90.0
KAFKA = KINDS["KAFKA"]
HOUR = 3_600_000
COPY = "CREATE STREAM {out} AS SELECT n FROM {source}{behind};"
WINDOWS = """CREATE CHANGELOG {out} AS SELECT window_start, window_end, SUM(n) AS n
  FROM TUMBLE({source}, SIZE 1 SECOND){behind} GROUP BY window_start, window_end;"""


@dataclass
class World:
    """One query from ``events`` to ``out``, over topics of its own."""

    spark: SparkSession
    folder: Path
    servers: LocalAddresses
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    project: LoadedProject | None = None

    @property
    def source(self) -> str:
        return f"events_{self.id}"

    def compile(self, source: str = "", query: str = COPY, partitions: int = 2) -> None:
        behind = f" WITH ({source})" if source else ""
        self.declare(f"""CREATE STREAM {self.source} (n BIGINT) WITH ('topic' = '{self.source}',
            'value.format' = 'json', 'topic.partitions' = {partitions}, 'topic.replicas' = 1,
            'kafka.topic.retention.ms' = '-1',
            'kafka.topic.message.timestamp.type' = 'CreateTime');
          {query.format(out=f"out_{self.id}", source=self.source, behind=behind)}""")

    def declare(self, sql: str) -> None:
        sql = f"""CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{self.servers.kafka}', 'tls.disabled' = TRUE);
          {sql.replace("{id}", self.id)}"""
        settings = Settings(root=self.folder, sql=self.folder, state=self.folder, store="k")
        self.project = compile_texts([("test.sql", sql)], settings)
        assert not self.project.errors, "\n".join(found.text() for found in self.project.errors)
        with closing(self.admin()) as admin:
            for relation in self.project.catalog.relations.values():
                admin.ensure(KAFKA.entity_plan(relation))

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin("k", {"bootstrap.servers": self.servers.kafka})

    @staticmethod
    def resolve(value: PropertyValue) -> str:
        return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)

    def start(self, trigger: Trigger = "continuous", name: str = "out") -> StreamingQuery:
        assert self.project is not None
        query = self.project.queries[f"{name}_{self.id}"]
        store = self.project.catalog.store("k")
        with closing(self.admin()) as admin:
            reads = {
                scan.source_name: KAFKA.read_spec(
                    store, scan.relation, scan.reading, admin.describe(scan.relation.entity)
                )
                for scan in query.scans
            }
        prepared = prepare(
            self.spark,
            query,
            reads=reads,
            writes={query.name: KAFKA.write_spec(store, query.sink, query.refresh)},
            identity=SinkIdentity(f"test/{query.name}", 1),
            resolve=self.resolve,
            job_name=query.name,
        )
        patient(prepared)
        started = face.start(prepared, str(self.folder / name), trigger)
        self.running.append((prepared, started))
        return started

    def run(self, name: str = "out") -> list[BatchProgress]:
        """A finite run; its batches."""
        query = self.start("available_now", name)
        self.wait_for_end(query)
        assert face.failure(*self.running[-1]) is None
        progress = [read_progress(one.json) for one in query.recentProgress]
        self.stop()
        return progress

    @staticmethod
    def wait_for_end(query: StreamingQuery) -> None:
        """Also of a query that fails, which is not raised."""
        end = time.monotonic() + DEADLINE
        while query.isActive and time.monotonic() < end:
            with suppress(StreamingQueryException):
                query.awaitTermination(1)

    def raw(self, name: str = "out") -> list[RawRecord]:
        with closing(self.admin()) as admin:
            return list(admin.records(f"{name}_{self.id}", from_beginning=True, limit=100_000, stopped=lambda: False))

    def send(self, first: int, last: int, partition: int, at: int | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.servers.kafka})
        more: dict[str, Any] = {} if at is None else {"timestamp": at}
        for n in range(first, last):
            producer.produce(self.source, json.dumps({"n": n}).encode(), partition=partition, **more)
        assert producer.flush(30) == 0

    def cut(self, partition: int, offset: int) -> None:
        """What retention does, at once."""
        admin = AdminClient({"bootstrap.servers": self.servers.kafka})
        for future in admin.delete_records([TopicPartition(self.source, partition, offset)]).values():
            future.result(20)

    def read(self) -> list[int]:
        return sorted(json.loads(record.value or b"null")["n"] for record in self.raw())

    def wait(self, check: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not check():
            for prepared, query in self.running:
                fault = None if query.isActive else face.failure(prepared, query)
                assert fault is None, str(fault)
            assert time.monotonic() < end, "the deadline passed"
            time.sleep(0.3)

    def stop(self) -> None:
        for prepared, query in self.running:
            query.stop()
            face.close(prepared)
        self.running.clear()


@pytest.fixture(scope="session")
def servers(local_servers: Callable[..., LocalAddresses]) -> LocalAddresses:
    return local_servers("kafka")


@pytest.fixture
def world(spark: SparkSession, servers: LocalAddresses, tmp_path: Path) -> Iterator[World]:
    made = World(spark, tmp_path, servers)
    yield made
    made.stop()


def test_a_moment_is_where_a_new_query_begins(world: World) -> None:
    """Partition 1 has nothing since then: it is read from its end on."""
    now = int(time.time() * 1000)
    world.compile(f"'starting.position' = timestamp, 'starting.timestamp' = {now - HOUR}")
    world.send(0, 5, 0, at=now - 2 * HOUR)
    world.send(5, 8, 0, at=now - HOUR)
    world.send(8, 10, 0, at=now)
    world.send(100, 105, 1, at=now - 3 * HOUR)
    world.run()
    assert world.read() == [5, 6, 7, 8, 9]
    world.send(10, 12, 0, at=now - 5 * HOUR)
    world.send(105, 107, 1, at=now - 5 * HOUR)
    world.run()
    assert world.read() == [5, 6, 7, 8, 9, 10, 11, 105, 106], "a restart goes on by positions, whatever the times"


def test_offsets_are_where_a_new_query_begins(world: World) -> None:
    """Partition 1 is not named: it is read from its oldest record on. Partition 2 begins with the next record."""
    start = "'starting.position' = offsets, 'starting.offsets' = '{}'"
    world.compile(start.format("0:3,2:2"), partitions=3)
    for partition in range(3):
        world.send(10 * partition, 10 * partition + (5 if partition < 2 else 2), partition)
    world.run()
    assert world.read() == [3, 4, *range(10, 15)]
    world.compile(start.format("0:0"), partitions=3)
    world.send(22, 24, 2)
    world.run()
    assert world.read() == [3, 4, *range(10, 15), 22, 23], "a restart goes on by positions, whatever the property says"


def test_an_offset_that_retention_removes_after_the_check_is_a_lost_record(world: World) -> None:
    start = "'starting.position' = offsets, 'starting.offsets' = '0:2,1:0'"
    world.compile(start)
    world.send(0, 10, 0)
    world.cut(0, 6)
    query = world.start("available_now")
    world.wait_for_end(query)
    fault = face.failure(*world.running[-1])
    assert fault is not None and fault.condition == "INPUT_LOST", fault
    world.stop()
    world.folder /= "again"
    world.compile(f"{start}, {SKIP}")
    assert sum(batch.lost_records for batch in world.run()) == 4
    assert world.read() == [6, 7, 8, 9]


def test_latest_begins_with_what_comes(world: World) -> None:
    world.compile("'starting.position' = latest")
    world.send(0, 5, 0)
    world.run()
    world.send(5, 7, 1)
    world.run()
    assert world.read() == [5, 6]


SKIP = "'source.data.loss' = 'skip'"


def test_lost_records_are_skipped_and_counted(world: World) -> None:
    world.compile(SKIP)
    for partition in range(2):
        world.send(10 * partition, 10 * partition + 5, partition)
    assert world.run()[-1].lost_records == 0
    for partition in range(2):
        world.send(100 + 10 * partition, 110 + 10 * partition, partition)
    world.cut(0, 8)
    last = world.run()[-1]
    (source,) = last.sources
    assert (last.lost_records, source.lost_records, source.lost) == (3, 3, f"{world.source}/0 5-7")
    assert world.read() == [*range(5), *range(10, 15), *range(103, 120)]


def test_everything_that_waited_is_lost(world: World) -> None:
    """The whole range of a batch is gone, and of a topic that nothing came into since."""
    world.compile(SKIP)
    world.send(0, 5, 0)
    world.run()
    world.send(5, 20, 0)
    world.cut(0, 20)
    last = world.run()[-1]
    assert (last.lost_records, last.lag_records, world.read()) == (15, 0, [*range(5)])
    world.send(20, 22, 0)
    assert world.run()[-1].lost_records == 0, "counted once"
    assert world.read() == [*range(5), 20, 21]


def test_skipping_under_a_clock_in_bounded_batches(world: World) -> None:
    """The counting source inside the one that tells the clock; each batch counts its own part of the gap."""
    world.compile(f"{SKIP}, 'max.records.per.batch' = 4", WINDOWS, partitions=1)
    world.send(0, 4, 0)
    world.run()
    world.send(4, 18, 0)
    world.cut(0, 13)
    batches = world.run()
    assert (batches[-1].lost_records, sum(batch.rows for batch in batches)) == (9, 5)
    assert max(batch.rows for batch in batches) <= 4


def test_how_far_behind_a_reader_is(world: World) -> None:
    world.compile(partitions=3)
    now = int(time.time() * 1000)
    world.send(0, 5, 0, at=now - HOUR)
    world.send(5, 10, 0, at=now - 1000)
    world.send(10, 14, 1, at=now - 5000)
    with closing(world.admin()) as admin:
        facts = admin.describe(world.source)
        assert facts is not None
        for positions, records, oldest in (
            ({}, 14, now - HOUR),
            ({"0": 5, "1": 0, "2": 0}, 9, now - 5000),
            ({"0": 5, "1": 4, "2": 0}, 5, now - 1000),
            ({"0": 10, "1": 4, "2": 0}, 0, None),
        ):
            found = admin.lag(world.source, positions)
            assert (found.records, found.oldest_millis, found.identity) == (records, oldest, facts.identity)
        world.cut(0, 7)
        found = admin.lag(world.source, {"0": 2, "1": 4})
        assert (found.records, found.oldest_millis) == (3, now - 1000), "what is gone does not wait"
        assert admin.identity(world.source) == facts.identity
        assert admin.identity("no_such_topic") == ""


def test_only_a_marker_waits(world: World) -> None:
    """The end of an aborted transaction is an offset without a record."""
    world.compile(partitions=1)
    producer = Producer({"bootstrap.servers": world.servers.kafka, "transactional.id": world.id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(world.source, b'{"n": 1}')
    producer.flush(30)
    producer.abort_transaction(30)
    with closing(world.admin()) as admin:
        found = admin.lag(world.source, {"0": 0})
        assert (found.records, found.oldest_millis) == (2, None)


# --- keys and what stands beside a record -----------------------------------------------------------------------------

COUNTS = "'topic.partitions' = 1, 'topic.replicas' = 1"
SHAPES = {"SMALLINT": ">h", "INTEGER": ">i", "BIGINT": ">q", "FLOAT": ">f", "DOUBLE": ">d"}
KEYS: tuple[tuple[str, dict[str, tuple[str, object]]], ...] = (
    ("primitive", {"k": ("VARCHAR", "User_é")}),
    ("primitive", {"k": ("SMALLINT", -7)}),
    ("primitive", {"k": ("INTEGER", 2_000_000_000)}),
    ("primitive", {"k": ("BIGINT", -(2**62))}),
    ("primitive", {"k": ("DOUBLE", -1.5e-300)}),
    ("primitive", {"k": ("FLOAT", 0.25)}),
    ("json", {"k": ("VARCHAR", 'a "quoted" key'), "b": ("BIGINT", 2**60), "d": ("DOUBLE", 0.1)}),
)
"""Format, and the columns of the key with their type and value."""


def key_bytes(format_: str, key: dict[str, tuple[str, object]]) -> bytes:
    """As the serializers of other clients write it."""
    if format_ == "json":
        values = {name: value for name, (_, value) in key.items()}
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
    ((type_, value),) = key.values()
    return str(value).encode() if type_ == "VARCHAR" else struct.pack(SHAPES[type_], value)


@pytest.mark.parametrize(
    ("format_", "key"), KEYS, ids=["-".join((format_, *(type_ for type_, _ in key.values()))) for format_, key in KEYS]
)
def test_a_key_in_every_format_is_written_and_read(
    world: World, format_: str, key: dict[str, tuple[str, object]]
) -> None:
    """Kept in the key alone: what comes back came from there."""
    names, columns = ", ".join(key), ", ".join(f"{name} {type_}" for name, (type_, _) in key.items())
    keyed = f"'key.format' = '{format_}', 'key.columns' = '{names}', 'value.columns.exclude' = '{names}', {COUNTS}"
    world.declare(
        f"""CREATE STREAM in_{{id}} ({columns}, n BIGINT) WITH ('value.format' = 'json', {COUNTS});
        CREATE STREAM keyed_{{id}} WITH ({keyed}) AS SELECT {names}, n FROM in_{{id}};
        CREATE STREAM again_{{id}} ({columns}, n BIGINT) WITH ('topic' = 'keyed_{world.id}', 'value.format' = 'json',
          {keyed});
        CREATE STREAM out_{{id}} WITH ({COUNTS}) AS SELECT {names}, n, rowkey() AS "text" FROM again_{{id}};"""
    )
    values = {name: value for name, (_, value) in key.items()}
    producer = Producer({"bootstrap.servers": world.servers.kafka})
    producer.produce(f"in_{world.id}", json.dumps({**values, "n": 1}).encode())
    assert producer.flush(30) == 0
    world.run("keyed")
    (record,) = world.raw("keyed")
    assert (record.key, json.loads(record.value or b"")) == (key_bytes(format_, key), {"n": 1})
    world.run("out")
    (found,) = world.raw("out")
    row = json.loads(found.value or b"")
    text = row.pop("text")
    assert row == {**values, "n": 1}
    if format_ == "json" or key["k"][0] == "VARCHAR":
        assert text == key_bytes(format_, key).decode()
    else:
        assert float(text) == values["k"]


ASKED = """CREATE STREAM out_{id} WITH ('topic.partitions' = 1, 'topic.replicas' = 1) AS
  SELECT n, rowkey() AS k, rowmetadata()->topic AS topic, rowmetadata(e)->"partition" AS part,
    rowmetadata()->"offset" AS at, rowmetadata()->timestamp_type AS stamped,
    CAST(rowmetadata()->headers['trace'] AS VARCHAR) AS trace, rowtime() AS millis
  FROM events_{id} e WHERE rowmetadata()->"offset" > 0;"""


def test_headers_and_the_place_of_a_record(world: World) -> None:
    world.declare(
        f"""CREATE STREAM events_{{id}} (n BIGINT) WITH ('topic' = 'events_{world.id}',
          'value.format' = 'json', {COUNTS}, 'kafka.topic.message.timestamp.type' = 'CreateTime',
          'kafka.topic.retention.ms' = '-1');
        {ASKED}"""
    )
    producer = Producer({"bootstrap.servers": world.servers.kafka})
    headers: list[tuple[str, bytes | None]] = [("trace", b"one"), ("other", None), ("trace", b"two")]
    for n, more in enumerate(({}, {"headers": headers}, {}, {"headers": [("trace", None)], "key": "x"})):
        producer.produce(f"events_{world.id}", json.dumps({"n": n}).encode(), timestamp=1000 + n, **more)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    world.run()
    rows = [json.loads(record.value or b"") for record in world.raw()]
    place = {"topic": f"events_{world.id}", "part": 0, "stamped": "CreateTime"}
    assert rows == [
        {"n": 1, "k": None, "at": 1, "trace": "two", "millis": 1001} | place,
        {"n": 2, "k": None, "at": 2, "trace": None, "millis": 1002} | place,
        {"n": 3, "k": "x", "at": 3, "trace": None, "millis": 1003} | place,
    ]


def test_headers_are_out_of_the_way_of_who_does_not_ask(world: World) -> None:
    world.compile()
    assert world.project is not None
    (scan,) = next(iter(world.project.queries.values())).scans
    spec = KAFKA.read_spec(world.project.catalog.store("k"), scan.relation, scan.reading, None)
    assert spec.options["includeHeaders"].value is False
