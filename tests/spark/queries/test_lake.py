"""Queries into Delta tables by way of Spark: what the loader gets from a batch, and a checkpoint that forgot its last
commit."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

from ds_dagster.spark.queries.batch_writers import BatchWriter
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import open_loader
from ds_dagster.stores.registry import KINDS
from tests.fixtures.lake import read_lake

UTC = datetime.timezone.utc
EVENTS = """
CREATE STREAM events (k VARCHAR, n BIGINT, price DECIMAL(12,2), tags ARRAY<VARCHAR>, at TIMESTAMP_LTZ(3),
    place STRUCT<city VARCHAR, codes MAP<VARCHAR, BIGINT>>)
  WITH ('store' = 'm', 'topic' = 'events', 'value.format' = 'json');
"""
EVENT = {
    "k": "a",
    "n": 1,
    "price": "12.50",
    "tags": ["x", None],
    "at": "2024-01-31 10:11:12.5Z",
    "place": {"city": "Köln", "codes": {"zip": 50667}},
}
ROW = {
    **EVENT,
    "price": decimal.Decimal("12.50"),
    "at": datetime.datetime(2024, 1, 31, 10, 11, 12, 500000, tzinfo=UTC),
}


def lake(bench, sql: str):
    """The project with a store ``lake``; the write spec its table ``t`` has there, and where it stands."""
    url = (bench.folder / "lake").as_uri()
    project = bench.compile(f"CREATE STORE lake WITH ('type' = DELTA, 'uris' = '{url}');\n{EVENTS}{sql}")
    store, query = project.catalog.store("lake"), project.queries["t"]
    address = LakeAddress("lake", url)
    return KINDS["DELTA"].write_spec(store, query.sink, query.refresh), address, address.place("t")


def start(bench, write):
    """With the loader the spec names, as the engine opens it."""
    from ds_dagster.catalog.io_spec import SinkIdentity

    bench.rows = open_loader(write, SinkIdentity("t", 1), lambda value: _resolved(value))
    return bench.start("t", write=write)


def _resolved(value) -> str:
    return ("true" if value.value else "false") if isinstance(value.value, bool) else str(value.value)


def forget_the_last_commit(folder: Path) -> None:
    """As after a crash between the load and Spark's own commit."""
    commits = folder / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink()


def test_nested_rows_of_a_stream_are_appended_once(bench):
    write, address, place = lake(bench, "CREATE TABLE t WITH ('store' = 'lake') AS SELECT * FROM events;")
    query = start(bench, write)
    bench.send("events", EVENT)
    bench.settle(query)
    bench.send("events", {**EVENT, "k": "b", "place": None})
    bench.settle(query)
    writer = bench.running[-1][0].sinks[0].writer
    assert isinstance(writer, BatchWriter)
    assert writer.last is not None
    assert (writer.last.rows, writer.last.replayed) == (1, False)
    bench.stop()
    forget_the_last_commit(bench.folder / "checkpoints" / "t")
    query = start(bench, write)
    bench.settle(query)
    replayed = bench.running[-1][0].sinks[0].writer.last
    assert replayed is not None
    assert replayed.replayed
    assert sorted(read_lake(address, place), key=lambda row: row["k"]) == [ROW, {**ROW, "k": "b", "place": None}]


def test_a_changelog_is_merged_by_key(bench):
    sql = (
        "CREATE TABLE t WITH ('store' = 'lake') AS SELECT k, COUNT(*) AS n, SUM(price) AS total FROM events GROUP BY k;"
    )
    write, address, place = lake(bench, sql)
    assert write.table.mode == "upsert"
    query = start(bench, write)
    bench.send("events", EVENT, {**EVENT, "k": None}, EVENT)
    bench.settle(query)
    bench.send("events", EVENT, {**EVENT, "k": None})
    bench.settle(query)
    bench.stop()
    forget_the_last_commit(bench.folder / "checkpoints" / "t")
    query = start(bench, write)
    bench.settle(query)
    rows = {row["k"]: (row["n"], row["total"]) for row in read_lake(address, place)}
    assert rows == {"a": (3, decimal.Decimal("37.50")), None: (2, decimal.Decimal("25.00"))}
