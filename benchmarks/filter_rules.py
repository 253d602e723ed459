"""What it brings to test a condition on one side before a join of changelogs instead of behind it: the same statement
planned with and without that rule, over records in files, without servers."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.measure import Pairs, Result, Size, results

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreDefinition
    from ds_dagster.plan.query import BoundQuery
    from ds_dagster.project.load import LoadedProject

DECLARED = """
CREATE STORE s WITH ('type' = KAFKA, 'uris' = 'nowhere:1');
CREATE CHANGELOG orders (id INTEGER, customer INTEGER, amount INTEGER, PRIMARY KEY(id))
  WITH ('store' = 's', 'topic' = 'orders', 'topic.partitions' = 1, 'topic.replicas' = 1,
        'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id INTEGER>');
CREATE CHANGELOG customers (name INTEGER, city VARCHAR, PRIMARY KEY(name))
  WITH ('store' = 's', 'topic' = 'customers', 'topic.partitions' = 1, 'topic.replicas' = 1,
        'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<name INTEGER>');
CREATE CHANGELOG joined WITH ('store' = 's', 'topic' = 'joined', 'value.format' = 'json') AS
  SELECT o.id, o.amount, c.city FROM orders o JOIN customers c ON o.customer = c.name WHERE o.amount >= 90;
"""
FILES = 4
UNNAMED = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "false"}
"""Both plans read what a provider gives, and such sources have no names in the checkpoint."""
CUSTOMERS = 1_000
RECORDS = {
    "orders": (
        "to_json(named_struct('id', id % {keys}))",
        "to_json(named_struct('id', id % {keys}, 'customer', pmod(hash(id), 1000), 'amount', pmod(hash(id, 7), 100)))",
    ),
    "customers": (
        "to_json(named_struct('name', id % 1000))",
        "to_json(named_struct('name', id % 1000, 'city', concat('city ', id % 17)))",
    ),
}
"""Topic → key and value of a record by its number."""


def pushdown(size: Size) -> list[Result]:
    """Both plans, in turns; the share that passes the condition is a tenth."""
    from ds_dagster.jars import driver_jars
    from ds_dagster.settings import EngineSettings, load_settings
    from ds_dagster.spark.session import build_session

    rows = size.rows(480_000, 24_000)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        engine = EngineSettings(cores=2)
        loaded = load_settings(Path(__file__).parents[1], state=folder)
        settings = replace(loaded, engine=engine, spark={**loaded.spark, **UNNAMED})
        store, *queries = bound(settings)
        spark = build_session(settings, jars=driver_jars(), app_name="filters")
        try:
            written(spark, folder, rows)
            speed = Pairs("condition before a changelog join: throughput (peer: behind it)", "rows/s", True)
            state = Pairs("condition before a changelog join: rows in state", "rows", False)
            for run in range(-1, size.runs):
                found = [ran(spark, store, query, folder, f"{run}-{side}") for side, query in enumerate(queries)]
                if run >= 0:
                    speed.add(*(rows / seconds for seconds, _ in found))
                    state.add(*(kept for _, kept in found))
        finally:
            spark.stop()
    return results((speed, state))


def bound(settings: Any) -> tuple[StoreDefinition, BoundQuery, BoundQuery]:
    """The store, and the query with the rule and without it."""
    from ds_dagster.plan.binding import rewrites
    from ds_dagster.plan.binding.filter_rules import push_filters
    from ds_dagster.project.load import compile_texts

    def compiled() -> LoadedProject:
        return compile_texts([("bench.sql", DECLARED)], settings)

    without = tuple(rule for rule in rewrites.RULES if rule is not push_filters)
    ours = compiled()
    with patch.object(rewrites, "RULES", without):
        peer = compiled()
    return ours.catalog.store("s"), ours.queries["joined"], peer.queries["joined"]


def written(spark: Any, folder: Path, rows: int) -> None:
    """The topics as files of records, each file a batch."""
    for topic, (key, value) in RECORDS.items():
        number = rows if topic == "orders" else CUSTOMERS
        columns = [text.format(keys=rows // 4) for text in (key, value)]
        frame = spark.range(0, number, 1, FILES).selectExpr(
            f"cast({columns[0]} as binary) as key",
            f"cast({columns[1]} as binary) as value",
            "timestamp_millis(id) as timestamp",
            "'0' as partition",
            "lpad(cast(id as string), 19, '0') as `order`",
        )
        frame.write.parquet(str(folder / topic))


def ran(spark: Any, store: StoreDefinition, query: BoundQuery, folder: Path, name: str) -> tuple[float, int]:
    """Seconds of a finite run over all files, and rows in state behind it."""
    from ds_dagster.catalog.io_spec import SinkIdentity
    from ds_dagster.spark.queries import query as face
    from ds_dagster.spark.queries.prepared import prepare
    from ds_dagster.stores.registry import KINDS
    from ds_dagster.testing.running import plain, unbounded

    kind = KINDS[store.kind]
    reads = {s.source_name: kind.read_spec(store, s.relation, s.reading, None) for s in query.scans}

    def read(scan: Any, _spec: Any) -> Any:
        path = str(folder / scan.relation.entity)
        records = spark.read.parquet(path)
        return spark.readStream.schema(records.schema).option("maxFilesPerTrigger", 1).parquet(path)

    def discard(batch: Any, _epoch: int) -> None:
        batch.write.format("noop").mode("overwrite").save()

    prepared = prepare(
        spark,
        query,
        reads=reads,
        writes={query.name: unbounded(kind.write_spec(store, query.sink, query.refresh))},
        identity=SinkIdentity(name, 1),
        resolve=plain,
        job_name=name,
        provider=read,
        captures={query.name: discard},
    )
    try:
        begin = time.perf_counter()
        running = face.start(prepared, str(folder / f"checkpoint-{name}"), "available_now")
        running.awaitTermination()
        seconds = time.perf_counter() - begin
        progress = running.lastProgress
        assert progress is not None
        return seconds, sum(operator.numRowsTotal for operator in progress.stateOperators)
    finally:
        face.close(prepared)
