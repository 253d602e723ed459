"""A query that dies on either side of its sink's commit, over every table sink: the table holds what the model says.

Streams have tests of their own: Kafka and Kinesis in test_streaming_sinks.py, files in test_files.py.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.errors import DsError
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.queries import query as face
from ds_dagster.testing.running import Crashes, CrashingLoader
from tests.conformance import conftest
from tests.conformance.conftest import AT, often
from tests.spark.conftest import Bench

pytestmark = [pytest.mark.conformance, pytest.mark.spark]
SEED = 20261122
SQL = """
CREATE CHANGELOG items (id BIGINT, url VARCHAR, at TIMESTAMP_LTZ(6), PRIMARY KEY (id)) WITH ('topic' = 'items',
  'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id BIGINT>');
CREATE STREAM clicks (url VARCHAR, n BIGINT, at TIMESTAMP_LTZ(6)) WITH ('topic' = 'clicks', 'value.format' = 'json');
CREATE TABLE upsert AS SELECT url, COUNT(*) AS visits, MAX(at) AS at FROM items GROUP BY url;
CREATE TABLE append AS SELECT url, n AS visits, at FROM clicks;
"""
URLS = ("./a", "./b", "./c")
SEEN = AT.isoformat()


OFTEN = ("sqlite", "postgres", "databricks_warehouse")
"""Sinks that this tier crashes with a query of their own, and the long one all: a file, rows and ledger in one
transaction, and in two statements. Delta and memory are among the four sinks of an application; the case runner
crashes memory, too. What a loader does with a batch it has is the same everywhere (test_rules.py)."""
CUT_OFF = ("sqlite", "postgres")
"""Sinks that meet a checkpoint without its end in this tier, the others in the long one: test_rules.py holds the ledger
of each against checkpoints."""


class Surviving:
    """A query on a bench; whatever it dies of, the next one goes on with loaders of its own."""

    bench: Bench
    died: int = 0
    query: StreamingQuery | None = None

    def start(self) -> None:
        """Stop the query that runs, and start it again."""
        raise NotImplementedError

    def settle(self) -> None:
        """What was sent is in the tables, over as many deaths as it takes."""
        while True:
            assert self.query is not None
            try:
                self.query.processAllAvailable()
                return
            except SPARK_ERRORS:
                prepared, query = self.bench.running[-1]
                fault = face.failure(prepared, query)
                assert isinstance(fault, DsError)
                assert fault.condition == "INJECTED_CRASH", str(fault)
                self.died += 1
                self.start()


@dataclass
class Crashing(Surviving):
    """One query into one table."""

    bench: Bench
    sink: Any
    mode: str
    crashes: Crashes = field(default_factory=Crashes)
    died: int = 0
    query: StreamingQuery | None = None

    def start(self) -> None:
        self.bench.stop()
        loader = self.sink.loader(mode=self.mode)
        self.bench.rows = CrashingLoader(loader, self.crashes, "q")  # type: ignore[assignment]
        self.query = self.bench.start(self.mode)


@pytest.fixture(params=[pytest.param("append", marks=pytest.mark.slow), "upsert"])
def crashing(request: pytest.FixtureRequest, spark: SparkSession, sink: Any, tmp_path: Path) -> Iterator[Crashing]:
    made = Crashing(Bench(spark, tmp_path), sink, request.param)
    made.bench.compile(SQL)
    made.start()
    yield made
    made.bench.stop()


def changes(dice: random.Random) -> list[tuple[int, str | None]]:
    """Which item stands where, None where it goes."""
    return [(dice.randrange(6), None if dice.random() < 0.4 else dice.choice(URLS)) for _ in range(12)]


def send(crashing: Crashing, batch: list[tuple[int, str | None]]) -> None:
    """As one batch."""
    if crashing.mode == "append":
        send_clicks(crashing.bench, batch)
        return
    values = [url and {"id": key, "url": url, "at": SEEN} for key, url in batch]
    records = [({"id": key}, value, 0, "0") for (key, _), value in zip(batch, values, strict=True)]
    crashing.bench.topic("items").send_all(records)


def send_clicks(bench: Bench, batch: list[tuple[int, str | None]]) -> None:
    """As one batch of the stream."""
    bench.topic("clicks").send_all([(None, {"url": url, "n": key, "at": SEEN}, 0, "0") for key, url in batch])


def model(mode: str, sent: list[tuple[int, str | None]]) -> list[tuple[Any, Any]]:
    if mode == "append":
        return sorted(((url, key) for key, url in sent), key=repr)
    standing = dict(sent)
    counts = Counter(url for url in standing.values() if url is not None)
    return sorted(counts.items(), key=repr)


@pytest.mark.parametrize("sink", often(*OFTEN), indirect=True)
def test_every_row_is_there_once(crashing: Crashing) -> None:
    """A batch that died behind its write, one that died behind the commit in front of it, and a restart."""
    dice = random.Random(SEED)
    sent: list[tuple[int, str | None]] = []
    for point, batches, deaths in ((None, 1, 0), ("before_commit", 1, 1), ("after_commit", 2, 1), (None, 1, 0)):
        crashing.crashes.arm(point)  # type: ignore[arg-type]
        died = crashing.died
        for _ in range(batches):
            batch = changes(dice)
            sent += batch
            send(crashing, batch)
            crashing.settle()
        assert crashing.died - died == deaths
        assert crashing.sink.rows() == model(crashing.mode, sent)
        if point == "after_commit":
            crashing.start()


@pytest.mark.parametrize("sink", often(*CUT_OFF), indirect=True)
@pytest.mark.parametrize("crashing", ["append"], indirect=True)
def test_a_checkpoint_that_lost_its_end_never_skips_a_row(crashing: Crashing) -> None:
    """What a machine that loses power leaves, or a copy that was restored: the sink has batches the checkpoint does not
    know, and the source has got more rows. The right checkpoint goes on from there."""
    sent = [(0, "./a"), (1, "./b")]
    for record in sent:
        send(crashing, [record])
        crashing.settle()
    crashing.bench.stop()
    checkpoint = crashing.bench.folder / "checkpoints" / crashing.mode
    whole = checkpoint.with_name("whole")
    shutil.copytree(checkpoint, whole)
    for folder in ("offsets", "commits"):
        newest = max(int(path.name) for path in (checkpoint / folder).iterdir() if path.name.isdecimal())
        for name in (str(newest), f".{newest}.crc"):
            (checkpoint / folder / name).unlink(missing_ok=True)
    sent.append((2, "./c"))
    send(crashing, sent[-1:])
    with pytest.raises(DsError) as problem:
        crashing.start()
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"
    assert crashing.sink.rows() == model("append", sent[:-1])
    shutil.rmtree(checkpoint)
    whole.rename(checkpoint)
    crashing.start()
    crashing.settle()
    assert crashing.sink.rows() == model("append", sent)
    crashing.bench.stop()
    if crashing.sink.remove is not None:
        crashing.sink.remove()
        with pytest.raises(DsError) as problem:
            crashing.start()
        assert problem.value.condition == "TARGET_GONE"


FOUR = ("sqlite", "delta", "postgres", "memory")
"""Sinks of one application, in the order in which it writes them."""


@dataclass
class FourSinks(Surviving):
    """One application that fills a table of each of :data:`FOUR`."""

    bench: Bench
    sinks: Mapping[str, Any]
    crashes: Crashes = field(default_factory=lambda: Crashes(sinks=FOUR[1:2]))
    died: int = 0
    query: StreamingQuery | None = None
    rows_at_death: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        if self.query is not None:
            self.rows_at_death = self.rows()
        self.bench.stop()
        loaders = {
            name: sink.loader(mode="append", refresh="continuous", job=name) for name, sink in self.sinks.items()
        }
        self.bench.loaders = {name: CrashingLoader(loader, self.crashes, name) for name, loader in loaders.items()}
        self.query = self.bench.start("four")

    def rows(self) -> dict[str, Any]:
        return {name: sink.rows() for name, sink in self.sinks.items()}


@contextmanager
def four_sinks(bench: Bench, tmp_path: Path, postgres: Any) -> Iterator[FourSinks]:
    """The application, started."""
    made = {"memory": conftest._memory(tmp_path), "sqlite": conftest._sqlite(tmp_path)}
    made |= {"delta": conftest._delta(tmp_path), "postgres": conftest._postgres(postgres)}
    result = "SELECT url, n AS visits, at FROM clicks"
    tables = [f"CREATE TABLE {name} WITH ('refresh.mode' = 'continuous') AS {result};" for name in FOUR]
    bench.compile(f"{SQL.split('CREATE TABLE')[0]} BEGIN APPLICATION four; {' '.join(tables)} END APPLICATION;")
    with ExitStack() as stack:
        sinks = {name: stack.enter_context(contextmanager(conftest.closing)(made[name])) for name in FOUR}
        application = FourSinks(bench, sinks)
        application.start()
        yield application
        bench.stop()


@pytest.mark.servers
def test_no_sink_of_four_loses_or_doubles_a_row_when_the_query_dies_between_the_middle_ones(
    spark: SparkSession, tmp_path: Path, postgres_address: Any
) -> None:
    """The second sink has the batch, the third and the fourth have not; the next start repeats the batch."""
    dice = random.Random(SEED)
    sent: list[tuple[int, str | None]] = []
    with four_sinks(Bench(spark, tmp_path), tmp_path, postgres_address) as application:
        for point in (None, "before_commit"):
            application.crashes.arm(point)  # type: ignore[arg-type]
            died, before, batch = application.died, model("append", sent), changes(dice)
            sent += batch
            send_clicks(application.bench, batch)
            application.settle()
            after = model("append", sent)
            assert application.died - died == (point is not None)
            if point is not None:
                assert application.rows_at_death == dict(zip(FOUR, (after, after, before, before), strict=True))
            assert application.rows() == dict.fromkeys(FOUR, after)
