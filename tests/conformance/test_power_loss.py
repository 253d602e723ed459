"""The power fails at every step that a query takes on the disk of its checkpoint; what was not forced to it is gone.

Whatever is left, the query goes on from it, and its table holds what the model says.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.catalog.row_log import log_name
from ds_dagster.errors import DsError
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import prepare
from ds_dagster.stores.memory.loader import clear, open_loader, table_rows
from ds_dagster.stores.registry import KINDS
from ds_dagster.testing.running import Crashes
from tests.conformance.test_crashes import SEED, SQL, Crashing, changes, model, send
from tests.spark.conftest import Bench, Disk, resolve_plain

pytestmark = [pytest.mark.conformance, pytest.mark.spark]
LONG = pytest.mark.slow
SERVERS = pytest.mark.servers
CASES = (
    pytest.param("sqlite", "upsert", 7, False, id="sqlite"),
    pytest.param("sqlite", "upsert", 7, True, id="sqlite, names are kept"),
    pytest.param("files", "append", 5, True, id="files, names are kept"),
    pytest.param("files", "append", 1, False, id="files, every step", marks=LONG),
    pytest.param("sqlite", "upsert", 1, False, id="sqlite, every step", marks=LONG),
    pytest.param("sqlite", "upsert", 1, True, id="sqlite, every step, names are kept", marks=LONG),
    pytest.param("delta", "upsert", 3, False, id="delta", marks=LONG),
    *(
        pytest.param(kind, mode, 3, False, id=kind, marks=[LONG, SERVERS])
        for kind, mode in (
            ("postgres", "upsert"),
            ("snowflake", "append"),
            ("databricks", "append"),
            ("databricks_warehouse", "upsert"),
            ("files_s3", "append"),
        )
    ),
)
"""Kind of sink, how rows come into it, how many steps more the next attempt takes, whether names are kept that were
not forced. An appended row that comes twice shows at once, state that goes back shows in counts."""


def first_steps(stride: int) -> tuple[int, ...]:
    """Steps of the first attempt at each batch: the power fails in the one that makes the checkpoint and, between those
    steps, in one that builds on another; what that did to the state shows in the last one."""
    return 0, stride // 2, 1 << 40


@dataclass
class Powered(Crashing):
    """A query on a disk whose power fails."""

    disk: Disk = field(kw_only=True)

    def attempt(self, steps: int, *, names: bool) -> bool:
        """So many steps on the disk, then the power fails; whether everything was done before."""
        self.disk.power(steps)
        try:
            self.start()
            assert self.query is not None
            self.query.processAllAvailable()
        except (DsError, *SPARK_ERRORS) as problem:
            assert self.disk.is_off, problem
        is_done = not self.disk.is_off
        self.bench.stop()
        self.disk.lose(names=names)
        return is_done


@pytest.fixture
def powered(request: pytest.FixtureRequest, spark: SparkSession, sink: Any, tmp_path: Path) -> Iterator[Powered]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = Powered(Bench(spark, folder, disk="losing:"), sink, request.param, Crashes(), disk=Disk(spark, folder))
    made.bench.compile(SQL)
    made.disk.lose()
    yield made
    made.disk.power()
    made.bench.stop()


@pytest.mark.parametrize(("sink", "powered", "stride", "names"), CASES, indirect=["sink", "powered"])
def test_nothing_is_lost_or_doubled(powered: Powered, stride: int, names: bool) -> None:
    dice = random.Random(SEED)
    sent: list[tuple[int, str | None]] = []
    failures = 0
    for steps in first_steps(stride):
        batch = changes(dice)
        sent += batch
        send(powered, batch)
        while not powered.attempt(steps, names=names):
            failures += 1
            steps += stride
        assert powered.sink.rows() == model(powered.mode, sent)
    assert failures >= 20 / stride


APPLICATION = """
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('topic' = 'clicks', 'value.format' = 'json');
BEGIN APPLICATION both
  CREATE TABLE appended WITH ('store' = 'm', 'refresh.mode' = 'continuous') AS SELECT url, n
    FROM clicks WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG');
  CREATE MATERIALIZED VIEW counted AS SELECT url, COUNT(*) AS visits
    FROM clicks WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG') GROUP BY url;
END APPLICATION;
"""


@dataclass
class PoweredApplication:
    """Two sinks and a row log, each of which survives; their checkpoint is on a disk whose power fails."""

    bench: Bench
    disk: Disk
    logged: dict[int, list[bytes]] = field(default_factory=dict)

    def attempt(self, steps: int) -> bool:
        """As :meth:`Powered.attempt`."""
        self.disk.power(steps)
        try:
            self.start().processAllAvailable()
        except (DsError, *SPARK_ERRORS) as problem:
            assert self.disk.is_off, problem
        is_done = not self.disk.is_off
        self.bench.stop()
        self.disk.lose()
        return is_done

    def start(self) -> Any:
        assert self.bench.project is not None
        query, identity = self.bench.project.queries["both"], SinkIdentity("both", 1)
        writes = {part.name: self._write(part) for part in query.parts}
        prepared = prepare(
            self.bench.spark,
            query,
            reads=self.bench.specs(query, {})[0],
            writes=writes,
            identity=identity,
            resolve=resolve_plain,
            job_name=f"both_{uuid.uuid4().hex[:8]}",
            provider=self.bench.provide(self.bench.spark),
            loaders={
                p.name: open_loader(writes[p.name], query.writer_of(p, identity), resolve_plain) for p in query.parts
            },
            logs={log_name(log): WriteSpec("stream", log.entity, "exactly_once") for log in query.logs},
            log_capture=self.log,
        )
        running = face.start(prepared, f"losing:{self.disk.folder}/checkpoints/both")
        self.bench.running.append((prepared, running))
        return running

    def log(self, _name: str, rows: list[bytes], epoch: int) -> None:
        """As a topic with the batch's number in its transaction: a batch that is written again is the same batch."""
        assert self.logged.setdefault(epoch, sorted(rows)) == sorted(rows)

    def rows(self, name: str) -> list[dict[str, Any]]:
        assert self.bench.project is not None
        (part,) = [part for part in self.bench.project.queries["both"].parts if part.name == name]
        table = self._write(part).table
        assert table is not None
        return table_rows("m", table.path[1])

    def _write(self, part: Any) -> WriteSpec:
        assert self.bench.project is not None
        return KINDS["MEMORY"].write_spec(self.bench.project.catalog.store("m"), part.sink, part.refresh)


@pytest.mark.parametrize("stride", [pytest.param(7, id="some steps"), pytest.param(1, id="every step", marks=LONG)])
def test_an_application_and_its_row_log_lose_and_double_nothing(
    spark: SparkSession, tmp_path: Path, stride: int
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    powered = PoweredApplication(Bench(spark, folder), Disk(spark, folder))
    powered.bench.compile(APPLICATION)
    powered.disk.lose()
    dice, sent, bad, failures = random.Random(SEED), [], 0, 0
    for steps in first_steps(stride):
        values = [{"url": dice.choice("abc"), "n": dice.randrange(9)} for _ in range(8)]
        broken = [f"not JSON {bad + more}" for more in range(2)]
        sent += values
        bad += len(broken)
        powered.bench.topic("clicks").send_all([(None, value, 0, "0") for value in [*values, *broken]])
        while not powered.attempt(steps):
            failures += 1
            steps += stride
        assert Counter((row["url"], row["n"]) for row in powered.rows("appended")) == Counter(
            (row["url"], row["n"]) for row in sent
        )
        counted = {row["url"]: row["visits"] for row in powered.rows("counted")}
        assert counted == Counter(row["url"] for row in sent)
        assert sum(map(len, powered.logged.values())) == bad
    powered.disk.power()
    clear("m")
    assert failures >= 20 / stride
