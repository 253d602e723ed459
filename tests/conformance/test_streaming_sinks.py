# ruff: noqa: E501 - statements stay on one line
"""Kafka and Kinesis as sources and sinks of real queries: nothing lost, nothing doubled, deletes and keys as documented."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.query import Trigger
from ds_dagster.stores.registry import KINDS
from tests.conformance.conftest import patient

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
DEADLINE = 90.0
EVENTS = """
CREATE STREAM events_{id} (id BIGINT, k VARCHAR, secret VARCHAR)
  WITH ('store' = '{store}', 'topic' = 'events_{id}', 'value.format' = 'json', {counts});
"""


@pytest.fixture(scope="session")
def servers(local_servers: Callable[..., LocalAddresses]) -> LocalAddresses:
    return local_servers("kafka", "kinesis")


@dataclass
class World:
    """Queries over real servers; every test has topics of its own by ``{id}``."""

    spark: SparkSession
    folder: Path
    servers: LocalAddresses
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    project: LoadedProject | None = None
    admins: dict[str, StoreAdmin] = field(default_factory=dict)

    def compile(self, sql: str) -> None:
        stores = f"""CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{self.servers.kafka}', 'tls.disabled' = TRUE);
          CREATE STORE n WITH ('type' = KINESIS, 'access_region' = '{self.servers.region}', 'uris' = '{self.servers.kinesis}',
            'kinesis.access_key_id' = '${{LOCAL_KEY:-local}}', 'kinesis.secret_access_key' = '${{LOCAL_KEY:-local}}');"""
        settings = Settings(root=self.folder, sql=self.folder, state=self.folder, store="k")
        self.project = compile_texts([("test.sql", stores + sql.replace("{id}", self.id))], settings)
        assert not self.project.errors, "\n".join(error.text() for error in self.project.errors)
        for relation in self.project.catalog.relations.values():
            self.admin(relation.store).ensure(self.kind(relation.store).entity_plan(relation))

    def kind(self, store: str) -> Any:
        assert self.project is not None
        return KINDS[self.project.catalog.store(store).kind]

    def admin(self, store: str) -> StoreAdmin:
        """Control of a store, closed at the end: to connect to a store takes a tenth of a second."""
        assert self.project is not None
        if store not in self.admins:
            self.admins[store] = self.kind(store).admin(self.project.catalog.store(store), self.resolve)
        return self.admins[store]

    @staticmethod
    def resolve(value: Any) -> str:
        text = "local" if "LOCAL_KEY" in str(value.value) else value.value
        return str(text).lower() if isinstance(text, bool) else str(text)

    def start(self, name: str, trigger: Trigger = "continuous") -> StreamingQuery:
        assert self.project is not None
        query = self.project.queries[f"{name}_{self.id}"]
        reads = {}
        for scan in query.scans:
            store = self.project.catalog.store(scan.relation.store)
            facts = self.admin(store.name).describe(scan.relation.entity)
            reads[scan.source_name] = self.kind(store.name).read_spec(store, scan.relation, scan.reading, facts)
        store = self.project.catalog.store(query.sink.store)
        prepared = prepare(
            self.spark,
            query,
            reads=reads,
            writes={query.name: self.kind(store.name).write_spec(store, query.sink, query.refresh)},
            identity=SinkIdentity(f"test/{query.name}", 1),
            resolve=self.resolve,
            job_name=query.name,
        )
        patient(prepared)
        started = face.start(prepared, str(self.folder / query.name), trigger)
        self.running.append((prepared, started))
        return started

    def send(self, store: str, topic: str, records: list[tuple[str | None, object]]) -> None:
        """(key, value) pairs; None is a delete."""
        entity = f"{topic}_{self.id}"
        raw = [(key, b"" if value is None else json.dumps(value).encode()) for key, value in records]
        if store == "k":
            from confluent_kafka import Producer

            producer = Producer({"bootstrap.servers": self.servers.kafka})
            for (key, value), (_, written) in zip(raw, records, strict=True):
                producer.produce(entity, key=key, value=None if written is None else value)
            assert producer.flush(30) == 0
            return
        import boto3

        client = boto3.client(
            "kinesis", endpoint_url=self.servers.kinesis, region_name=self.servers.region, aws_access_key_id="local",
            aws_secret_access_key="local",
        )  # fmt: skip
        for at in range(0, len(raw), 500):
            found = client.put_records(
                StreamName=entity,
                Records=[
                    {"Data": value, "PartitionKey": key or str(n)} for n, (key, value) in enumerate(raw[at : at + 500])
                ],
            )
            assert found["FailedRecordCount"] == 0
        client.close()

    def read(self, store: str, topic: str) -> list[tuple[bytes | None, Any]]:
        """Committed records as (key, value)."""
        admin = self.admin(store)
        quiet = time.monotonic() + 3
        found = list(
            admin.records(
                f"{topic}_{self.id}", from_beginning=True, limit=None, stopped=lambda: time.monotonic() > quiet
            )
        )
        return [(record.key, json.loads(record.value) if record.value else None) for record in found]

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


@pytest.fixture
def world(spark: SparkSession, servers: LocalAddresses, tmp_path: Path) -> Iterator[World]:
    made = World(spark, tmp_path, servers)
    yield made
    made.stop()
    for admin in made.admins.values():
        admin.close()


KAFKA_COUNTS = "'topic.partitions' = 2, 'topic.replicas' = 1"


@pytest.mark.parametrize("fault", ["before-commit@1", "after-commit@1"])
def test_a_batch_that_failed_around_the_commit_is_written_once(world: World, fault: str) -> None:
    world.compile(
        EVENTS.replace("{store}", "k").replace("{counts}", KAFKA_COUNTS)
        + "CREATE STREAM out_{id} AS SELECT id, k FROM events_{id} WHERE id % 2 = 0;"
    )
    world.send("k", "events", [(None, {"id": n, "k": "x", "secret": "s"}) for n in range(200)])
    assert world.start("out", "available_now").awaitTermination(120)
    world.stop()
    world.send("k", "events", [(None, {"id": n, "k": "x", "secret": "s"}) for n in range(200, 400)])
    operators(world.spark).set_fault(fault)
    query = world.start("out")
    end = time.monotonic() + DEADLINE
    while query.isActive:
        assert time.monotonic() < end
        time.sleep(0.05)
    world.stop()
    assert world.start("out", "available_now").awaitTermination(120)
    rows = world.read("k", "out")
    assert Counter(value["id"] for _, value in rows) == Counter(range(0, 400, 2))
    assert {tuple(value) for _, value in rows} == {("id", "k")}


def test_a_restart_and_an_empty_run_add_nothing(world: World) -> None:
    world.compile(
        EVENTS.replace("{store}", "k").replace("{counts}", KAFKA_COUNTS)
        + "CREATE CHANGELOG counts_{id} AS SELECT k, COUNT(*) AS n FROM events_{id} GROUP BY k;"
    )
    world.send("k", "events", [(None, {"id": n, "k": "ab"[n % 2]}) for n in range(100)])
    for _ in range(3):
        assert world.start("counts", "available_now").awaitTermination(120)
        world.stop()
    rows = world.read("k", "counts")
    assert sorted((json.loads(key or b"{}")["k"], value["n"]) for key, value in rows) == [("a", 50), ("b", 50)]


def forget_last_commit(world: World, name: str) -> None:
    """As if the driver had died behind the sink's write and before Spark's note of it."""
    commits = world.folder / f"{name}_{world.id}" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


def test_a_batch_that_is_repeated_into_kinesis_shows_twice_and_nothing_else_does(world: World) -> None:
    """A stream is at least once there: the rows of that batch, and only they. A changelog's replace themselves."""
    world.compile(
        EVENTS.replace("{store}", "k").replace("{counts}", KAFKA_COUNTS)
        + """CREATE STREAM out_{id} WITH ('store' = 'n', 'topic.shards' = 1) AS SELECT id, k FROM events_{id};
             CREATE CHANGELOG counts_{id} WITH ('store' = 'n', 'topic.shards' = 1) AS SELECT k, COUNT(*) AS n FROM events_{id} GROUP BY k;"""
    )
    for first in (0, 50):
        world.send("k", "events", [(None, {"id": n, "k": "abc"[n % 3]}) for n in range(first, first + 50)])
        for name in ("out", "counts"):
            assert world.start(name, "available_now").awaitTermination(120)
        world.stop()
        if first == 0:
            forget_last_commit(world, "out")
            forget_last_commit(world, "counts")
    assert Counter(value["id"] for _, value in world.read("n", "out")) == Counter([*range(100), *range(50)])
    told = [(value["k"], value["n"]) for _, value in world.read("n", "counts")]
    rows = {end: {(k, len(range(at, end, 3))) for at, k in enumerate("abc")} for end in (50, 100)}
    assert Counter(told) == Counter([*rows[50], *rows[50], *rows[100]])
    assert set(told[-3:]) == rows[100]


def test_deletes_travel_from_kinesis_to_kafka(world: World) -> None:
    world.compile(
        """CREATE CHANGELOG users_{id} (userid VARCHAR, region VARCHAR, PRIMARY KEY(userid))
             WITH ('store' = 'n', 'topic' = 'users_{id}', 'value.format' = 'json', 'topic.shards' = 1);
           CREATE CHANGELOG out_{id} WITH ('topic.partitions' = 1, 'topic.replicas' = 1) AS
             SELECT userid, region FROM users_{id} WHERE region <> 'hidden';"""
    )
    rows = [("a", "EU"), ("b", "US"), ("a", "hidden"), ("c", "EU"), ("c", None)]
    world.send("n", "users", [(key, region and {"userid": key, "region": region}) for key, region in rows])
    world.start("out")
    world.wait(lambda: len(world.read("k", "out")) >= 5)
    folded: dict[bytes | None, Any] = {}
    for key, value in world.read("k", "out"):
        folded[key] = value
    assert {json.loads(key or b"")["userid"]: value and value["region"] for key, value in folded.items()} == {
        "a": None, "b": "US", "c": None,
    }  # fmt: skip


def test_where_a_record_stands_in_kinesis(world: World) -> None:
    world.compile(
        EVENTS.replace("{store}", "n").replace("{counts}", "'topic.shards' = 1")
        + """CREATE STREAM out_{id} WITH ('store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1) AS
          SELECT id, rowkey() AS k, rowmetadata()->stream AS st, rowmetadata()->partition_key AS pk,
            rowmetadata()->shard_id AS sh, rowmetadata()->sequence_number AS sq FROM events_{id};"""
    )
    world.send("n", "events", [("a", {"id": 1}), ("b", {"id": 2})])
    world.start("out")
    world.wait(lambda: len(world.read("k", "out")) == 2)
    rows = sorted((value for _, value in world.read("k", "out")), key=lambda row: int(row["id"]))
    assert [(row["k"], row["pk"], row["st"]) for row in rows] == [(k, k, f"events_{world.id}") for k in "ab"]
    assert {row["sh"] for row in rows} == {"shardId-000000000000"}
    assert all(row["sq"].isdecimal() and row["sq"][0] != "0" for row in rows)
    assert int(rows[0]["sq"]) < int(rows[1]["sq"])


def test_kafka_stream_to_kinesis_and_back(world: World) -> None:
    world.compile(
        EVENTS.replace("{store}", "k").replace("{counts}", KAFKA_COUNTS)
        + """CREATE STREAM over_{id} WITH ('store' = 'n', 'topic.shards' = 2) AS SELECT id, k FROM events_{id} PARTITION BY k;
             CREATE STREAM back_{id} WITH ('store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT * FROM over_{id};"""
    )
    world.send("k", "events", [(None, {"id": n, "k": f"key {n % 7}"}) for n in range(300)])
    world.start("over")
    world.start("back")
    world.wait(lambda: len(world.read("k", "back")) >= 300)
    assert Counter(value["id"] for _, value in world.read("k", "back")) == Counter(range(300))


def test_temporal_join_over_both_stores_in_arrival_time(world: World) -> None:
    """The main job: clicks of Kafka meet the users of Kinesis; nobody moves time by hand."""
    world.compile(
        """CREATE STREAM clicks_{id} (url VARCHAR, userid VARCHAR) WITH ('store' = 'k', 'topic' = 'clicks_{id}',
             'value.format' = 'json', 'topic.partitions' = 2, 'topic.replicas' = 1);
           CREATE CHANGELOG users_{id} (userid VARCHAR, region VARCHAR, email VARCHAR, PRIMARY KEY(userid))
             WITH ('store' = 'n', 'topic' = 'users_{id}', 'value.format' = 'json', 'topic.shards' = 1);
           CREATE STREAM out_{id} AS SELECT c.url, u.region FROM clicks_{id} c JOIN users_{id} u ON c.userid = u.userid;"""
    )
    world.send("n", "users", [(f"u{n}", {"userid": f"u{n}", "region": f"r{n % 3}", "email": "pii"}) for n in range(20)])
    time.sleep(1.1)  # Kinesis and the broker stamp arrival by one clock, to the millisecond
    world.send("k", "clicks", [(None, {"url": str(n), "userid": f"u{n % 25}"}) for n in range(500)])
    world.start("out")
    expected = {str(n): f"r{n % 25 % 3}" for n in range(500) if n % 25 < 20}
    world.wait(lambda: len(world.read("k", "out")) >= len(expected))
    rows = world.read("k", "out")
    assert {value["url"]: value["region"] for _, value in rows} == expected
    assert len(rows) == len(expected)
    assert not any("email" in value for _, value in rows)


def test_tumbling_window_closes_by_itself_in_arrival_time(world: World) -> None:
    world.compile(
        """CREATE STREAM clicks_{id} (url VARCHAR) WITH ('topic' = 'clicks_{id}', 'value.format' = 'json', 'topic.partitions' = 2,
             'topic.replicas' = 1);
           CREATE CHANGELOG out_{id} AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(clicks_{id}, SIZE 2 SECONDS)
             GROUP BY window_start, window_end;"""
    )
    world.start("out")
    world.send("k", "clicks", [(None, {"url": str(n)}) for n in range(40)])
    world.wait(lambda: sum(value["n"] for _, value in world.read("k", "out")) == 40)


def test_refined_groups_go_to_kinesis(world: World) -> None:
    world.compile(
        EVENTS.replace("{store}", "k").replace("{counts}", KAFKA_COUNTS)
        + """CREATE CHANGELOG counts_{id} WITH ('store' = 'n', 'topic.shards' = 1) AS SELECT k, COUNT(*) AS n FROM events_{id} GROUP BY k;"""
    )
    world.start("counts")
    world.send("k", "events", [(None, {"id": n, "k": "ab"[n % 2]}) for n in range(10)])

    def folded() -> dict[str, int]:
        return {value["k"]: value["n"] for _, value in world.read("n", "counts")}

    world.wait(lambda: folded() == {"a": 5, "b": 5})
    world.send("k", "events", [(None, {"id": 10, "k": "a"})])
    world.wait(lambda: folded() == {"a": 6, "b": 5})
