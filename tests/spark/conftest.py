"""One Spark session with the operators, and a bench on which one query runs over sources fed by hand."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.io_spec import (
    BatchLoader,
    LoadResult,
    ReadSpec,
    RefreshMode,
    SinkIdentity,
    TableRead,
    WriteSpec,
)
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.catalog.reading.tables import table_read
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import log_name
from ds_dagster.engine.growth import rewrite_state
from ds_dagster.jars import driver_jars
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.query import Trigger
from ds_dagster.spark.session import build_session, class_name
from ds_dagster.stores.registry import KINDS
from ds_dagster.testing.short_lived import session_engine, session_properties

DEADLINE = 60.0


def settings_in(folder: Path, **spark: str) -> Settings:
    """Settings of a project in a folder, with Spark properties."""
    return Settings(
        root=folder,
        sql=folder / "sql",
        state=folder / ".ds",
        store="m",
        engine=session_engine(),
        spark=spark,
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The process's session if it has one, else a new one made as the engine makes it."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    folder = tmp_path_factory.mktemp("spark")
    settings = settings_in(
        folder,
        **{
            **session_properties(),
            "spark.sql.streaming.pollingDelay": "20ms",
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        },
    )
    made = build_session(settings, jars=driver_jars(), app_name="tests")
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


_MOUNTS = count()
"""Numbers of the file systems of :func:`elsewhere`."""


def elsewhere(spark: SparkSession, folder: Path) -> tuple[SparkSession, str]:
    """A session that sees a folder as a URL of another file system, and that URL. Its name is new each time: Hadoop
    keeps file systems by their names."""
    session, name = spark.newSession(), f"elsewhere{next(_MOUNTS)}"
    session.conf.set(f"fs.viewfs.mounttable.{name}.link./root", folder.as_uri())
    return session, f"viewfs://{name}/root"


@dataclass
class Disk:
    """Checkpoints under the scheme ``losing:``, in any session; all of a process share one disk."""

    spark: SparkSession
    folder: Path

    def __post_init__(self) -> None:
        context: Any = self.spark._jsc
        context.hadoopConfiguration().set("fs.losing.impl", "dsdagster.fs.LosingFileSystem")

    @property
    def _java(self) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.dsdagster.fs.LosingFileSystem

    def power(self, steps: int = 1 << 40, *, forced: bool = True) -> None:
        """The next so many steps succeed, and no other; ``forced``: forcing a file to disk has an effect."""
        self._java.arm(steps, forced)

    @property
    def is_off(self) -> bool:
        return bool(self._java.isOff())

    def lose(self, *, names: bool = False) -> None:
        """What was not forced is gone; with ``names`` it is there, without its content."""
        self._java.lose(str(self.folder), names)
        self.power()


@dataclass
class Topic:
    """Records fed by hand: a memory stream of JSON, positions counted per partition."""

    spark: SparkSession
    stream: Any = None
    positions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        jvm: Any = self.spark._jvm
        path = class_name("memory_stream", self.spark.version)
        holder = jvm
        for part in path.split("."):
            holder = getattr(holder, part)
        strings = jvm.org.apache.spark.sql.Encoders.STRING()
        self.stream = getattr(holder, "MODULE$").apply(self.spark._jsparkSession, 1, strings)

    def send(self, *values: object, key: object = None, at: int = 0, partition: str = "0") -> None:
        """Records with these values (objects as JSON, bytes and text as they are, None without); ``at``: epoch ms."""
        self.send_all([(key, value, at, partition) for value in values])

    def send_all(self, records: Sequence[tuple[object, object, int, str]]) -> None:
        """Records as (key, value, at, partition), one batch."""
        jvm: Any = self.spark._jvm
        rows = jvm.java.util.ArrayList()
        for key, value, at, partition in records:
            order = self.positions[partition] = self.positions.get(partition, -1) + 1
            row = {"k": _hex(key), "v": _hex(value), "t": at, "p": partition, "o": f"{order:019d}"}
            rows.add(json.dumps(row))
        self.stream.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(rows))

    def frame(self, session: SparkSession) -> DataFrame:
        """In the shape of :data:`ds_dagster.spark.queries.sources.SourceProvider`."""
        rows = DataFrame(self.stream.toDF(), session)
        parts = sf.from_json("value", "k string, v string, t bigint, p string, o string")
        return rows.select(parts.alias("r")).select(
            sf.unhex("r.k").alias("key"),
            sf.unhex("r.v").alias("value"),
            sf.timestamp_millis("r.t").alias("timestamp"),
            sf.col("r.p").alias("partition"),
            sf.col("r.o").alias("order"),
        )


def _hex(part: object) -> str | None:
    if part is None:
        return None
    if isinstance(part, bytes):
        return part.hex()
    return (part if isinstance(part, str) else json.dumps(part)).encode().hex()


@dataclass
class Rows:
    """A loader that keeps tables as they come; a replayed epoch is a no-op, as the contract asks."""

    loaded: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    crash: str = ""
    crash_epoch: int = -1
    schema: pyarrow.Schema | None = None

    def prepare(self, tip: CheckpointTip) -> None:
        return

    def load(self, rows: pyarrow.Table, batch: Tip) -> LoadResult:
        epoch = batch.batch
        self._crash("before", epoch)
        self.schema = rows.schema
        replayed = epoch in self.loaded
        if not replayed:
            self.loaded[epoch] = rows.to_pylist()
        self._crash("after", epoch)
        return LoadResult(rows.num_rows, replayed)

    def _crash(self, when: str, epoch: int) -> None:
        if self.crash == when and self.crash_epoch == epoch:
            self.crash = ""
            raise RuntimeError(f"injected {when} the load")

    def finish(self) -> int:
        return sum(len(rows) for rows in self.loaded.values())

    def close(self) -> None:
        return

    @property
    def all(self) -> list[dict[str, Any]]:
        return [row for epoch in sorted(self.loaded) for row in self.loaded[epoch]]

    def folded(self, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Last row of each key, deletes applied."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.all:
            at = tuple(row[name] for name in key)
            values = {name: value for name, value in row.items() if name != "__deleted"}
            found.pop(at, None)
            if not row.get("__deleted", False):
                found[at] = values
        return found


def resolve_plain(value: PropertyValue) -> str:
    """Values without references, as the engine hands them on."""
    return resolve(value, {}, "a test")


@dataclass
class Bench:
    """Runs queries of a project over hand-fed topics."""

    spark: SparkSession
    folder: Path
    topics: dict[str, Topic] = field(default_factory=dict)
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    loaders: Mapping[str, BatchLoader] = field(default_factory=dict)
    """By the name of the part; ``rows`` for others."""
    logged: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    project: LoadedProject | None = None
    skips: tuple[SkippedRecord, ...] = ()
    disk: str = ""
    """Scheme of the file system of checkpoints, with its colon."""

    def compile(self, sql: str) -> LoadedProject:
        """The project of a text over the in-memory store ``m``."""
        text = "CREATE STORE m WITH ('type' = MEMORY);\n" + sql
        self.project = compile_texts([("test.sql", text)], settings_in(self.folder))
        assert not self.project.errors, "\n".join(error.text() for error in self.project.errors)
        return self.project

    def topic(self, name: str) -> Topic:
        return self.topics.setdefault(name, Topic(self.spark))

    def send(self, topic: str, *values: object, **parts: Any) -> None:
        self.topic(topic).send(*values, **parts)

    def provide(self, session: SparkSession) -> Callable[[Scan, ReadSpec | None], DataFrame]:
        return lambda scan, spec: self.topic(scan.relation.entity).frame(session)

    def specs(self, query: BoundQuery, changes: Mapping[str, Any]) -> tuple[dict[str, ReadSpec], dict[str, WriteSpec]]:
        """Of every source, and of every sink by the name of its part."""
        from dataclasses import replace

        from ds_dagster.catalog.store import ReadOptions

        assert self.project is not None
        reads = {}
        for scan in query.scans:
            store = self.project.catalog.store(scan.relation.store)
            spec = KINDS[store.kind].read_spec(store, scan.relation, ReadOptions(), None)
            reads[scan.source_name] = replace(spec, **changes)
        return reads, {part.name: self.write(part.sink, query.refresh) for part in query.parts}

    def write(self, sink: Relation, refresh: RefreshMode) -> WriteSpec:
        assert self.project is not None
        store = self.project.catalog.store("m" if sink.store == "sqlite" else sink.store)
        return KINDS["MEMORY"].write_spec(store, sink, refresh)

    def prepare(
        self, name: str, *, clock: Any = "manual", write: WriteSpec | None = None, panes: bool = True, **spec: Any
    ) -> PreparedQuery:
        """``spec`` replaces fields of the read specs (``time_authority='broker'``)."""
        assert self.project is not None
        query = self.project.queries[name]
        reads, own = self.specs(query, spec)
        return prepare(
            self.spark,
            query,
            reads=reads,
            writes={query.name: write} if write else own,
            identity=SinkIdentity(name, 1),
            resolve=resolve_plain,
            job_name=f"{name}_{uuid.uuid4().hex[:8]}",
            clock=clock,
            provider=self.provide(self.spark),
            loaders={part: self.loaders.get(part, self.rows) for part, spec in own.items() if spec.kind == "batch"},
            captures={part: self.keep for part, spec in own.items() if spec.kind == "stream"},
            tables={scan.source_name: self.table(scan) for scan in query.tables},
            skips=self.skips,
            logs={log_name(log): WriteSpec("stream", log.entity, "exactly_once") for log in query.logs},
            log_capture=lambda _, rows, epoch: self.logged.setdefault(epoch, [json.loads(row) for row in rows]),
            panes=panes,
        )

    def table(self, scan: StaticScan) -> TableRead:
        assert self.project is not None
        store = self.project.catalog.store(scan.relation.store)
        return table_read(KINDS[store.kind], store, scan.relation)

    def keep(self, batch: DataFrame, epoch: int) -> None:
        for row in batch.collect():
            self.records.append({name: _read(value) for name, value in row.asDict().items()} | {"epoch": epoch})

    def start(
        self, name: str, trigger: Trigger = "continuous", *, grows: bool = False, **options: Any
    ) -> StreamingQuery:
        """``grows``: groups of the checkpoint get results that they lack, as the engine does before a start. It also
        moves them into the store of the definition."""
        prepared = self.prepare(name, **options)
        rewrite_state(prepared, self.folder / "checkpoints" / name, grows=grows)
        query = face.start(prepared, f"{self.disk}{self.folder}/checkpoints/{name}", trigger)
        self.running.append((prepared, query))
        return query

    def run(self, name: str, **options: Any) -> list[dict[str, Any]]:
        """Start, process all that is there, return the values of a stream sink."""
        query = self.start(name, **options)
        self.settle(query)
        return self.values

    def settle(self, query: StreamingQuery) -> None:
        query.processAllAvailable()

    def advance(self, query: StreamingQuery, millis: int) -> None:
        """Move the query's time and process what that closes."""
        prepared = next(p for p, q in self.running if q is query)
        operators(self.spark).advance_clock(prepared.job_name, millis * 1000)
        query.processAllAvailable()

    def fault(self, query: StreamingQuery) -> Any:
        """The condition a query ends with."""
        prepared = next(p for p, q in self.running if q is query)
        eventually(lambda: not query.isActive)
        return face.failure(prepared, query)

    def stop(self) -> None:
        for prepared, query in self.running:
            query.stop()
            face.close(prepared)
        self.running.clear()

    @property
    def values(self) -> list[dict[str, Any]]:
        return [record["value"] for record in self.records]

    def folded(self) -> dict[str, Any]:
        """Records of a changelog by key, tombstones applied."""
        found: dict[str, Any] = {}
        for record in self.records:
            key = json.dumps(record["key"], sort_keys=True)
            found.pop(key, None)
            if record["value"] is not None:
                found[key] = record["value"]
        return found


def _read(value: Any) -> Any:
    if not isinstance(value, bytes | bytearray):
        return value
    try:
        return json.loads(bytes(value))
    except ValueError:
        return bytes(value)


def eventually(check: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Poll until it holds; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "the deadline passed"
        time.sleep(0.02)


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., None]:
    return eventually


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(spark, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def plain_value() -> Callable[[object], PropertyValue]:
    return lambda value: PropertyValue(str(value))
