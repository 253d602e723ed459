"""Where a benchmark lives: a project in a folder of its own, its local servers, one Spark session for both sides."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from benchmarks.measure import children, cpu_seconds, say
from ds_dagster import local
from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.io_spec import Resolver, SinkIdentity, WriteSpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.jars import driver_jars
from ds_dagster.project.load import LoadedProject, compile_texts, kind_of_store, store_admin
from ds_dagster.runtime.connecting import resolver
from ds_dagster.settings import Settings, load_settings
from ds_dagster.spark.jvm import TICK_SOURCE
from ds_dagster.spark.planner.shared import PLANNER
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.query import close, start
from ds_dagster.spark.session import build_session

STORES = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/postgres',
  'postgres.username' = 'postgres', 'postgres.password' = '${BENCH_PASSWORD}');
"""
"""What every benchmark's statements begin with; the overlay of the local servers says where they are."""

TOML = 'store = "k"\n[engine]\ncores = 2\nmemory = "1g"\n'
FLUSH_SECONDS = 120.0
Record = tuple[str | None, bytes]


@dataclass(slots=True)
class Ran:
    """What one finite run took: wall seconds from its start to its end, CPU seconds of the driver's processes."""

    seconds: float
    cpu: float
    rows: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def rows_per_cpu_second(self) -> float:
        return self.rows / max(self.cpu, 0.01)


@dataclass
class House:
    """Made by :func:`open_house`."""

    root: Path
    settings: Settings
    bootstrap: str
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @cached_property
    def spark(self) -> SparkSession:
        """The engine's session in this process; both sides run in it, each query in a session of its own."""
        say("starting Spark")
        spark = build_session(self.settings, jars=driver_jars(), app_name="benchmarks")
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    @property
    def driver(self) -> list[int]:
        """Processes of Spark: the JVM and its Python workers, and the planner of Python sources."""
        planner = PLANNER.process
        pids = children(cast(Any, self.spark.sparkContext._gateway).proc.pid)
        return pids if planner is None else [*pids, *children(planner.pid)]

    def number(self) -> int:
        """Never the same twice."""
        return next(self._numbers)

    def checkpoint(self) -> str:
        """A fresh place for a checkpoint."""
        return str(self.root / "checkpoints" / str(self.number()))

    # -- topics ------------------------------------------------------------------------------------------------------

    def topic(self, name: str, settings: Mapping[str, str] | None = None, *, partitions: int = 2) -> str:
        """Create a topic."""
        from confluent_kafka.admin import AdminClient, NewTopic

        made = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(settings or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([made])[name].result(30)
        return name

    def fill(self, topic: str, records: Iterable[Record], partitions: int = 2) -> int:
        """Write records, dealt out evenly where they have no key; returns how many."""
        from confluent_kafka import Producer

        producer = Producer({
            "bootstrap.servers": self.bootstrap, "linger.ms": 20, "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
        })  # fmt: skip
        sent = 0
        for key, value in records:
            spread: dict[str, Any] = {} if key is not None else {"partition": sent % partitions}
            while True:
                try:
                    producer.produce(topic, value, key, **spread)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
            if sent % 1000 == 0:
                producer.poll(0)
        if producer.flush(FLUSH_SECONDS):
            raise SystemExit(f"the broker did not take all records of {topic}")
        return sent

    def count(self, topic: str) -> int:
        """Committed records in a topic."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return int(reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load().count())

    # -- ours ----------------------------------------------------------------------------------------------------------

    def project(self, sql: str) -> LoadedProject:
        """Compile statements (behind :data:`STORES`)."""
        project = compile_texts([("bench.sql", STORES + sql)], self.settings)
        if project.errors:
            raise SystemExit("\n".join(str(problem) for problem in project.errors))
        return project

    def prepared(self, project: LoadedProject, name: str, partitions: int = 2) -> PreparedQuery:
        """A query as the engine prepares it, in this process; its entities are made. As many state partitions as there
        are cores, as for the peer."""
        query = project.queries[name]
        reads = {}
        for scan in query.scans:
            kind, store = kind_of_store(project, scan.relation), project.catalog.store(scan.relation.store)
            facts = self._ensured(project, scan.relation)
            reads[scan.source_name] = kind.read_spec(store, scan.relation, scan.reading, facts)
        number = self.number()
        writes = {part.name: self._write_spec(project, part.sink) for part in query.parts}
        identity, job = SinkIdentity(f"bench.{number}.{name}", 1), f"{name}_{number}"
        resolve = self._resolver(project, query.sink.store)
        made = prepare(self.spark, query, reads=reads, writes=writes, identity=identity, resolve=resolve, job_name=job)
        made.session.conf.set(peers.PARTITIONS, partitions)
        return made

    def _write_spec(self, project: LoadedProject, sink: Relation) -> WriteSpec:
        if sink.kind in ("stream", "changelog"):
            self._ensured(project, sink)
        refresh = next(query.refresh for query in project.queries_of(sink.name))
        return kind_of_store(project, sink).write_spec(project.catalog.store(sink.store), sink, refresh)

    def _ensured(self, project: LoadedProject, relation: Relation) -> EntityFacts:
        with closing(store_admin(project, relation.store, self._resolver(project, relation.store))) as admin:
            return admin.ensure(kind_of_store(project, relation).entity_plan(relation))

    def _resolver(self, project: LoadedProject, store: str) -> Resolver:
        return resolver(project.settings, store)

    def run_ours(self, prepared: PreparedQuery) -> Ran:
        """Run to the end of what is there."""
        try:
            return self.timed(lambda: start(prepared, self.checkpoint(), "available_now"))
        finally:
            close(prepared)

    def timed(self, begin: Callable[[], StreamingQuery]) -> Ran:
        """Start a query and wait for its end."""
        cpu, begun = cpu_seconds(self.driver), time.perf_counter()
        query = begin()
        query.awaitTermination()
        seconds, used = time.perf_counter() - begun, cpu_seconds(self.driver) - cpu
        problem = query.exception()
        if problem is not None:
            raise SystemExit(str(problem))
        sources = [source for batch in query.recentProgress for source in batch["sources"]]
        rows = sum(source["numInputRows"] for source in sources if source["description"] != TICK_SOURCE)
        return Ran(seconds, used, rows)


@contextmanager
def open_house(servers: list[str]) -> Iterator[House]:
    """A house with its servers; all of it is gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="ds-bench-"))
    (root / "sql").mkdir()
    (root / "ds.toml").write_text(TOML, encoding="utf-8")
    house: House | None = None
    try:
        say(f"starting {', '.join(servers)}")
        found = local.up(root / ".ds", only=servers)
        house = House(root, load_settings(root), found.kafka)
        yield house
    finally:
        try:
            if house is not None and "spark" in house.__dict__:
                house.spark.stop()
        finally:  # its JVM may be gone before it
            local.down(root / ".ds")
            shutil.rmtree(root, ignore_errors=True)
