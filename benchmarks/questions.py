"""A key look-up in a view of a million rows by ``DsProject.ask``, after start. Budget: 10 ms."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ds_dagster.catalog.io_spec import SinkIdentity, open_loader
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.project.load import kind_of_store

if TYPE_CHECKING:
    from benchmarks.measure import Result, Size

SQL = """
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM clicks (userid BIGINT, url VARCHAR) WITH ('topic' = 'clicks', 'value.format' = 'json',
  'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE MATERIALIZED VIEW visits AS SELECT userid, COUNT(*) AS n, MAX(url) AS latest FROM clicks GROUP BY userid;
"""
BUDGET_MILLIS = 10.0
ROWS, LOOKS, BATCH = 1_000_000, 200, 100_000


def write_view(root: Path, rows: int) -> DsProject:
    """A project with one view of so many rows, written by its loader as an engine does."""
    import pyarrow

    (root / "sql").mkdir(parents=True)
    (root / "ds.toml").write_text('store = "kafka"\n', encoding="utf-8")
    (root / "sql" / "visits.sql").write_text(SQL, encoding="utf-8")
    project = DsProject(root)
    (query,) = project.project.queries.values()
    store = project.project.catalog.store(query.sink.store)
    write = kind_of_store(project.project, query.sink).write_spec(store, query.sink, "continuous")
    with closing(open_loader(write, SinkIdentity("bench", 1), lambda value: str(value.value))) as loader:
        loader.prepare(CheckpointTip())
        for batch, begin in enumerate(range(0, rows, BATCH)):
            keys = range(begin, min(begin + BATCH, rows))
            columns = {
                "userid": pyarrow.array(keys, pyarrow.int64()),
                "n": pyarrow.array([key % 97 for key in keys], pyarrow.int64()),
                "latest": [f"./page/{key}" for key in keys],
                "__deleted": pyarrow.array([False] * len(keys)),
            }
            loader.load(pyarrow.table(columns), Tip(batch))
    return project


def lookup(size: Size) -> list[Result]:
    """Medians of many looks with different keys."""
    from benchmarks.measure import Pairs, results

    rows = size.of(ROWS, 10_000)
    pair = Pairs(f"look-up by key in a view of {rows:,} rows (peer: its budget)", "ms", False)
    with tempfile.TemporaryDirectory() as folder:
        project = write_view(Path(folder) / "project", rows)
        _look(project, 0)  # what is loaded at the first look is not measured
        for _ in range(size.runs):
            pair.add(_median(project, rows), BUDGET_MILLIS)
    return results([pair])


def _look(project: DsProject, key: int) -> int:
    return int(project.ask(f"SELECT n FROM visits WHERE userid = {key}")["n"][0].as_py())


def _median(project: DsProject, rows: int) -> float:
    """Milliseconds."""
    dice, took = random.Random(rows), []
    for _ in range(LOOKS):
        key = dice.randrange(rows)
        begin = time.perf_counter()
        visits = _look(project, key)
        took.append((time.perf_counter() - begin) * 1000)
        if visits != key % 97:
            raise SystemExit(f"{visits} visits of {key}")
    return statistics.median(took)
