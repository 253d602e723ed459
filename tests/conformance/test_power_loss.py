"""The power fails at every step that a query takes on the disk of its checkpoint; what was not forced to it is gone.

Whatever is left, the query goes on from it, and its table holds what the model says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ds_dagster.errors import DsError
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.testing.running import Crashes
from tests.conformance.test_crashes import SEED, SQL, Crashing, changes, model, send
from tests.spark.conftest import Bench, Disk

pytestmark = [pytest.mark.conformance, pytest.mark.spark]
LONG = pytest.mark.slow
SERVERS = pytest.mark.servers
CASES = (
    pytest.param("sqlite", "upsert", 5, False, id="sqlite"),
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
    for _ in range(3):
        batch = changes(dice)
        sent += batch
        send(powered, batch)
        steps = 0
        while not powered.attempt(steps, names=names):
            failures += 1
            steps += stride
        assert powered.sink.rows() == model(powered.mode, sent)
    assert failures >= 20 / stride
