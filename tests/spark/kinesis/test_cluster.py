"""Tasks on other machines: no folder of the driver is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ds_dagster.catalog.store import ReadOptions
from ds_dagster.spark.kinesis import source
from ds_dagster.stores.kinesis.kind import Kinesis
from tests.spark.kinesis.aggregates import aggregate

pytestmark = pytest.mark.servers

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from ds_dagster.spark.kinesis.source import KinesisDataSource

options, folder = json.loads(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master("local-cluster[1,2,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "1g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.pyspark.python", sys.executable)
    .config("spark.executorEnv.PYTHONPATH", options.pop("python_path"))
    .getOrCreate()
)
spark.dataSource.register(KinesisDataSource)
frame = spark.readStream.format("ds_kinesis").options(**options).load()
query = (
    frame.writeStream.format("parquet").option("path", folder + "/out").option("checkpointLocation", folder + "/c")
    .trigger(availableNow=True).start()
)
query.awaitTermination(120)
rows = spark.read.parquet(folder + "/out").select("data").collect()
print("DATA", json.dumps(sorted(bytes(row.data).decode() for row in rows)))
spark.stop()
"""


def test_small_ranges_travel_with_their_tasks(new_stream, proxy, read_from, tools):
    stream = new_stream(2)
    stream.put(tools.numbered(300, keys=30))
    stream.put_one("a", aggregate([("a", b"%08d" % n) for n in range(300, 320)]))
    batches = read_from(stream, proxy.url, ship_records=True, max_records=1000)
    start, end = batches.position, tools.eventually(batches.plan, "a planned batch")
    partitions = batches.reader.partitions(start, end)
    assert all(wanted.payload for partition in partitions for wanted in partition.value)
    shutil.rmtree(batches.options.spool)
    prefetcher = batches.reader._prefetcher
    prefetcher.stop()
    prefetcher.join()
    asked = len(proxy.calls)
    task = source.KinesisStreamReader(batches.options)
    rows = [value for p in partitions for batch in task.read(p) for value in batch.column("data").to_pylist()]
    assert len(rows) > 100 and len(proxy.calls) == asked, "nothing is read twice"
    assert "payload" not in repr(partitions[0].value)


def test_large_ranges_are_read_from_the_stream(stream, read_from, tools, monkeypatch):
    monkeypatch.setattr(source, "SHIP_BYTES", 1000)
    stream.put(tools.numbered(300, keys=30))
    batches = read_from(stream, ship_records=True)
    start, end = batches.position, tools.eventually(batches.plan, "a planned batch")
    partitions = batches.reader.partitions(start, end)
    assert not any(wanted.payload for partition in partitions for wanted in partition.value)
    shutil.rmtree(batches.options.spool)
    task = source.KinesisStreamReader(batches.options)
    rows = sum(batch.num_rows for p in partitions for batch in task.read(p))
    task.stop()
    assert rows == sum(wanted.rows for partition in partitions for wanted in partition.value) > 0


def test_the_store_asks_for_it_on_clusters_only(compile_kinesis):
    spec = compile_kinesis
    assert "ship.records" not in spec.options and spec.cluster_options["ship.records"].value is True


@pytest.fixture
def compile_kinesis(tmp_path: Path):
    from ds_dagster.project.load import compile_texts
    from ds_dagster.settings import Settings

    sql = (
        "CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'us-east-1');"
        "CREATE STREAM b (x BIGINT) WITH ('store' = 'n', 'value.format' = 'json');"
    )
    project = compile_texts([("a.sql", sql)], Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds"))
    (relation,) = project.catalog.relations.values()
    return Kinesis().read_spec(project.catalog.store("n"), relation, ReadOptions(), None)


@pytest.mark.slow
def test_executors_in_processes_of_their_own(new_stream, kinesalite, tools, tmp_path):
    stream = new_stream(2)
    stream.put(tools.numbered(2000, keys=50))
    options = {
        "stream": stream.name,
        "region": "us-east-1",
        "endpoint_url": kinesalite,
        "access_key_id": "AKIDEXAMPLE",
        "secret_access_key": tools.secret,
        "ship.records": "true",
        "max.records.per.batch": "700",
        "spool": str(tmp_path / "spool"),
        "python_path": ":".join(path for path in sys.path if path),
    }
    command = [sys.executable, "-c", PROGRAM, json.dumps(options), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    shown = [line for line in done.stdout.splitlines() if line.startswith("DATA ")]
    assert shown, done.stderr[-4000:]
    assert json.loads(shown[0].removeprefix("DATA ")) == [f"{n:08d}" for n in range(2000)]
