"""A sink that was put back from an older copy, rows and ledger together, while its checkpoint is newer: the checkpoint
goes back to the sink's last batch, with the state it had then, and every row is there once. Over every store whose rows
and ledger are one transaction; the sources give again what came after."""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.errors import DsError
from ds_dagster.runtime.checkpoint_log import kept_batches, rewind_checkpoint
from ds_dagster.runtime.deciding.from_sink import SinkEnd, from_sink
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.stores.memory.loader import TABLES
from tests.conformance.conftest import Sink
from tests.conformance.test_crashes import SEED, SEEN
from tests.spark.conftest import Bench, Topic
from tests.spark.state_stores import maintain

pytestmark = [pytest.mark.conformance, pytest.mark.spark]
SQL = """
CREATE CHANGELOG items (id BIGINT, url VARCHAR, at TIMESTAMP_LTZ(6), PRIMARY KEY (id)) WITH ('topic' = 'in',
  'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id BIGINT>');
CREATE STREAM clicks (id BIGINT, url VARCHAR, at TIMESTAMP_LTZ(6)) WITH ('topic' = 'in', 'value.format' = 'json');
CREATE TABLE passed AS SELECT url, id AS visits, at FROM clicks;
CREATE TABLE counted AS SELECT url, COUNT(*) AS visits, MAX(at) AS at FROM clicks GROUP BY url;
CREATE TABLE standing AS SELECT url, COUNT(*) AS visits, MAX(at) AS at FROM items GROUP BY url;
"""
Change = tuple[int, str | None]


def passed(sent: list[Change]) -> list[tuple[Any, Any]]:
    return sorted(((url, key) for key, url in sent if url is not None), key=repr)


def counted(sent: list[Change]) -> list[tuple[Any, Any]]:
    return sorted(Counter(url for _, url in sent if url is not None).items())


def standing(sent: list[Change]) -> list[tuple[Any, Any]]:
    return sorted(Counter(url for url in dict(sent).values() if url is not None).items())


QUERIES: dict[str, Callable[[list[Change]], list[tuple[Any, Any]]]] = {
    "passed": passed,
    "counted": counted,
    "standing": standing,
}
"""Query → its model. Without state, with Spark's state in the heap, with ours in RocksDB."""


def copied(sink: Sink, loader: Any, folder: Path) -> Callable[[], None]:
    """Takes a copy of rows and ledger; what it returns puts it back."""

    def memory() -> Callable[[], None]:
        kept = copy.deepcopy(TABLES[sink.place])  # type: ignore[index]
        return lambda: TABLES.update({sink.place: kept})  # type: ignore[dict-item]

    def sqlite() -> Callable[[], None]:
        shutil.copy(loader.path, folder / "older.db")
        return lambda: _file_back(folder / "older.db", loader.path)

    def delta() -> Callable[[], None]:
        shutil.copytree(loader.place, folder / "older")
        return lambda: _folder_back(folder / "older", Path(loader.place))

    def postgres() -> Callable[[], None]:
        schema, table = sink.place
        return _tables(_postgres(loader), [f"{schema}.{table}", f"{schema}.ds_ledger"])

    def snowflake() -> Callable[[], None]:
        names = loader.statements.names
        database, schema, _ = sink.place
        quoted = [f'"{database}"."{schema}"."{name}"' for name in (names.target, names.ledger)]
        return _tables(loader._cursor().execute, quoted)

    takers = {"memory": memory, "sqlite": sqlite, "delta": delta, "postgres": postgres, "snowflake": snowflake}
    return takers[sink.kind]()


def _file_back(kept: Path, path: Path) -> None:
    for stale in path.parent.glob(f"{path.name}*"):
        stale.unlink()
    shutil.copy(kept, path)


def _folder_back(kept: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(kept, place)


def _postgres(loader: Any) -> Callable[[str], Any]:
    def run(statement: str) -> None:
        connection = loader.address.control()
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
        connection.close()

    return run


def _tables(run: Callable[[str], Any], tables: list[str]) -> Callable[[], None]:
    names = {table: f"{table[:-1]}_older{table[-1]}" if table.endswith('"') else f"{table}_older" for table in tables}
    for table, kept in names.items():
        run(f"CREATE TABLE {kept} AS SELECT * FROM {table}")

    def back() -> None:
        for table, kept in names.items():
            run(f"DELETE FROM {table}")
            run(f"INSERT INTO {table} SELECT * FROM {kept}")

    return back


SNAPSHOT = 3
"""Batches after which a snapshot of the state is due, instead of Spark's ten."""


class Snapshots(Bench):
    """A bench whose queries write snapshots of their state so often."""

    def prepare(self, name: str, **options: Any) -> PreparedQuery:
        made = super().prepare(name, **options)
        made.session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", str(SNAPSHOT))
        return made


@dataclass
class Restored:
    """One query into one table, a batch at a time; every run has a loader of its own."""

    bench: Bench
    sink: Sink
    name: str
    sent: list[list[Change]] = field(default_factory=list)
    dice: random.Random = field(default_factory=lambda: random.Random(SEED))

    @property
    def checkpoint(self) -> Path:
        return self.bench.folder / "checkpoints" / self.name

    def loader(self) -> Any:
        target = self.sink.target(mode="append" if self.name == "passed" else "upsert")
        return self.sink.open_loader(target, SinkIdentity("test/j/q", 1))

    def run(self, batches: int) -> None:
        """So many batches in one run; the sink has what the model says."""
        self.bench.rows = self.loader()
        query = self.bench.start(self.name)
        for _ in range(batches):
            batch = [(self.dice.randrange(6), self.dice.choice("abc")) for _ in range(5)]
            if self.name == "standing":
                batch.append((self.dice.randrange(6), None))
            self.sent.append(batch)
            self.feed(batch)
            query.processAllAvailable()
        self.bench.stop()
        assert self.sink.rows() == QUERIES[self.name]([change for batch in self.sent for change in batch])

    def feed(self, batch: list[Change]) -> None:
        values = [url and {"id": key, "url": url, "at": SEEN} for key, url in batch]
        records = [({"id": key}, value, 0, "0") for (key, _), value in zip(batch, values, strict=True)]
        self.bench.topic("in").send_all(records)

    def forget_nothing(self) -> None:
        """A topic of Spark's forgets what was finished; one of Kafka's does not."""
        self.bench.topics["in"] = Topic(self.bench.spark)
        for batch in self.sent:
            self.feed(batch)

    def refused(self) -> str:
        self.bench.rows = self.loader()
        with pytest.raises(DsError) as problem:
            self.bench.start(self.name)
        return problem.value.condition

    def repair(self) -> None:
        """What ``ds repair --from-sink`` does, without a project's files."""
        loader = self.loader()
        assert self.bench.project is not None
        end = SinkEnd("m.t", loader.tip(), "", loader.is_restorable, self.name)
        made = from_sink(self.bench.project.queries[self.name], [end], kept_batches(self.checkpoint))
        assert made.tip is not None and made.rewinds, made.reason
        rewind_checkpoint(self.checkpoint, made.tip, made.following)
        maintain(self.bench.spark)  # nothing of the runs before may come into it


@pytest.fixture
def restored(request: pytest.FixtureRequest, spark: SparkSession, sink: Sink, tmp_path: Path) -> Iterator[Restored]:
    made = Restored(Snapshots(spark, tmp_path / "work"), sink, request.param)
    made.bench.folder.mkdir()
    made.bench.compile(SQL)
    yield made
    made.bench.stop()


SERVED = ("postgres", "snowflake")
RESTORABLE = ("sqlite", "delta", "memory", *SERVED)
OFTEN = (("standing", "sqlite"), ("counted", "delta"), ("passed", "postgres"))
"""Pairs of the conformance tier: each query, and each way to put a sink back, once. What is decided knows the numbers
of batches alone, not the store or the query, so the long tier has the other pairs."""


def pair(name: str, sink: str) -> Any:
    """A query and a sink as parameters, with their marks."""
    served = [pytest.mark.servers] if sink in SERVED else []
    return pytest.param(name, sink, marks=[*served, *([] if (name, sink) in OFTEN else [pytest.mark.slow])])


@pytest.mark.parametrize(
    ("restored", "sink"), [pair(name, sink) for name in QUERIES for sink in RESTORABLE], indirect=True
)
def test_the_checkpoint_follows_a_sink_that_was_restored(restored: Restored, tmp_path: Path) -> None:
    restored.run(1)
    back = copied(restored.sink, restored.loader(), tmp_path)
    restored.run(SNAPSHOT)
    restored.run(1)
    newest = kept_batches(restored.checkpoint).finished
    back()
    assert restored.refused() == "SINK_BEHIND_CHECKPOINT"
    restored.repair()
    restored.forget_nothing()
    restored.run(1)
    for _ in range(2):
        restored.run(SNAPSHOT)
    assert newest is not None and kept_batches(restored.checkpoint).finished > newest, "beyond what there was"


def test_all_of_them_are_tried() -> None:
    """A loader that says it can be restored is in the test above."""
    from ds_dagster.stores.databricks.warehouse import WarehouseLoader
    from ds_dagster.stores.s3.loader import FilesLoader
    from ds_dagster.stores.table_sink import TableSink

    def below(kind: type) -> set[type]:
        return {kind, *(found for child in kind.__subclasses__() for found in below(child))}

    others = {kind for kind in below(TableSink) if kind.__module__.startswith("ds_dagster") and not kind.is_restorable}
    assert others == {TableSink, WarehouseLoader, FilesLoader}
