# ruff: noqa: E501 - progress as Spark writes it
"""Settings of sessions, sources by name, and what Spark tells of a batch."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ds_dagster.catalog.io_spec import Envelope, ReadSpec
from ds_dagster.datatypes import ArrayType, MapType, Scalar, StructField, StructType, decimal
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.clocks.clock import clock_config
from ds_dagster.spark.queries.progress import read_progress
from ds_dagster.spark.queries.sources import ReadLimits, read_records
from ds_dagster.spark.records.typemap import from_spark, spark_sql, to_spark
from ds_dagster.spark.session import CLASSES, class_name, in_pool, job_session, session_settings

ROOT = Path("/project")
MINE = Settings(root=ROOT, sql=ROOT / "sql", state=ROOT / ".ds", engine=EngineSettings(cores=3, memory="2g"))


def test_local_defaults():
    found = session_settings(MINE, jars=[Path("/a.jar"), Path("/b.jar")], version="4.2.0")
    assert found["spark.master"] == "local[3]"
    assert found["spark.driver.memory"] == "2g"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.jars"] == "/a.jar,/b.jar"
    assert found["spark.hadoop.fs.file.impl"].startswith("dsdagster.")


@pytest.mark.parametrize("master", ["spark://h:7077", "local-cluster[1,2,1024]"])
def test_a_cluster_keeps_its_own_addresses_and_file_system(master):
    """Executors of a local-cluster are processes of their own, too."""
    settings = Settings(root=ROOT, sql=ROOT, state=ROOT, engine=EngineSettings(master=master))
    found = session_settings(settings, jars=[Path("/a.jar")], version="4.2.0")
    assert found["spark.master"] == master
    assert not {"spark.driver.host", "spark.hadoop.fs.file.impl", "spark.sql.shuffle.partitions"} & set(found)


def test_a_projects_own_properties_win():
    settings = Settings(
        root=ROOT, sql=ROOT, state=ROOT, spark={"spark.sql.shuffle.partitions": "9", "spark.ui.enabled": "true"}
    )
    found = session_settings(settings, jars=(), version="4.2.0")
    assert (found["spark.sql.shuffle.partitions"], found["spark.ui.enabled"]) == ("9", "true")


def test_jars_of_the_project_stand_behind_ours():
    more = {"spark.jars": "/opt/msk.jar, /opt/x.jar", "spark.driver.extraClassPath": "/opt/classes"}
    engine = EngineSettings(master="spark://h:7077")
    found = session_settings(
        Settings(root=ROOT, sql=ROOT, state=ROOT, engine=engine, spark=more), jars=[Path("/a.jar")], version="4.2.0"
    )
    assert found["spark.jars"] == "/a.jar,/opt/msk.jar,/opt/x.jar"
    assert found["spark.driver.extraClassPath"] == "/a.jar:/opt/msk.jar:/opt/x.jar:/opt/classes"


def test_classes_of_newer_minors_are_those_of_the_newest_known():
    for what in CLASSES:
        assert class_name(what, "4.9.1") == class_name(what, "4.3.0")


def test_the_classes_exist(spark):
    loader = spark._jvm.java.lang.Class
    assert all(loader.forName(class_name(what, spark.version)) is not None for what in CLASSES)


def test_a_job_has_its_own_configuration_and_pool(spark):
    job = job_session(spark, {"spark.sql.shuffle.partitions": "3"}, "rocksdb")
    assert job.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    assert "RocksDB" in job.conf.get("spark.sql.streaming.stateStore.providerClass")
    with in_pool(job, "a job"):
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "a_job"
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "default"


TYPES = [
    Scalar("BOOLEAN"), Scalar("VARCHAR"), Scalar("TINYINT"), Scalar("BIGINT"), Scalar("DOUBLE"), decimal(12, 3), Scalar("DATE"),
    Scalar("TIMESTAMP"), Scalar("TIMESTAMP_LTZ"), Scalar("VARBINARY"), ArrayType(Scalar("INTEGER")), Scalar("TIME"),
    MapType(Scalar("VARCHAR"), ArrayType(Scalar("FLOAT"))), StructType((StructField("a b", Scalar("SMALLINT")),)),
]  # fmt: skip


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_survive_the_round_trip(spark, type_):
    assert from_spark(to_spark(type_)) == type_
    parsed = spark.createDataFrame([], f"x {spark_sql(type_)}").schema["x"].dataType
    assert parsed == to_spark(type_)


def test_sources_are_named_and_bounded(bench):
    bench.compile(
        "CREATE STREAM s (a BIGINT) WITH ('topic' = 's', 'value.format' = 'json');CREATE STREAM d AS SELECT a FROM s;"
    )
    (scan,) = bench.project.queries["d"].scans
    assert isinstance(scan, Scan)
    envelope = Envelope("NULL", "CAST(value AS BINARY)", "timestamp", "'0'", "CAST(value AS STRING)")
    spec = ReadSpec(format="rate-micro-batch", envelope=envelope, entity="m.s", limit_option="rowsPerBatch")
    made = read_records(bench.spark, scan, spec, lambda value: str(value.value), ReadLimits(17))
    assert scan.source_name in made.frame._jdf.queryExecution().analyzed().toString() or made.frame.isStreaming


def test_only_queries_that_wait_for_time_have_a_clock(bench):
    bench.compile(
        """CREATE STREAM s (k VARCHAR, t BIGINT) WITH ('topic' = 's', 'value.format' = 'json', 'timestamp' = 't');
           CREATE STREAM copy AS SELECT k FROM s;
           CREATE CHANGELOG counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
           CREATE CHANGELOG w AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(s, SIZE 1 MINUTE)
             GROUP BY window_start, window_end;
           CREATE STREAM j AS SELECT a.k FROM s a JOIN s b WITHIN 5 SECONDS ON a.k = b.k;"""
    )
    queries = bench.project.queries
    assert clock_config(queries["copy"].root, {}) is None
    assert clock_config(queries["counts"].root, {}) is None
    window = clock_config(queries["w"].root, {})
    assert window is not None
    assert (window.span_micros, window.grid_micros) == (60_000_000, 60_000_000)
    join = clock_config(queries["j"].root, {})
    assert join is not None
    assert (join.span_micros, join.grid_micros, len(join.inputs)) == (5_000_000, 0, 2)
    assert {time.bound_micros for time in join.inputs.values()} == {10_001_000}  # a row as late as allowed is in time


def test_steps_that_stand_over_one_another_wait_in_turn(bench):
    bench.compile(
        """CREATE STREAM s (k VARCHAR, t BIGINT) WITH ('topic' = 's', 'value.format' = 'json', 'timestamp' = 't');
           CREATE CHANGELOG over_join AS SELECT window_start, window_end, COUNT(*) AS n
             FROM TUMBLE((SELECT a.k FROM s a JOIN s b WITHIN 5 SECONDS ON a.k = b.k) x, SIZE 1 MINUTE)
             GROUP BY window_start, window_end;
           CREATE CHANGELOG over_window AS SELECT window_start, window_end, MAX(n) AS n
             FROM TUMBLE((SELECT n FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TUMBLE(s, SIZE 40 SECONDS)
               GROUP BY window_start, window_end, k) c) x, SIZE 1 MINUTE) GROUP BY window_start, window_end;"""
    )
    over_join = clock_config(bench.project.queries["over_join"].root, {})
    assert over_join is not None
    assert (over_join.span_micros, over_join.soonest_micros, over_join.grid_micros) == (65_000_000, 0, 0)
    over_window = clock_config(bench.project.queries["over_window"].root, {})
    assert over_window is not None
    assert (over_window.span_micros, over_window.grid_micros) == (100_000_000, 20_000_000)


PROGRESS = {
    "id": "x", "runId": "y", "name": "n", "timestamp": "2026-11-21T08:00:00.000Z", "batchId": 4, "durationMs": {"triggerExecution": 200},
    "eventTime": {"watermark": "2026-11-21T07:59:00.000Z"},
    "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2}],
    "sources": [
        {"description": "KafkaV2[Subscribe[t]]", "name": "a", "endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}},
         "numInputRows": 10},
        {"description": "ds-ticks", "numInputRows": 1, "endOffset": {"tick": 5}, "latestOffset": {"tick": 9}},
        {"description": "ds_kinesis", "name": "b", "endOffset": {"s": {"shard-0": {"s": "49"}}}, "latestOffset": None, "numInputRows": 4},
    ],
    "sink": {"description": "x", "numOutputRows": 12}, "observedMetrics": {"bad_records_a": {"rows": 3}},
}  # fmt: skip


def test_progress_is_read_into_a_record():
    found = read_progress(json.dumps(PROGRESS))
    assert (found.batch, found.rows, found.rows_per_second, found.rows_written) == (4, 14, 70.0, 12)
    assert (found.state_rows, found.state_bytes, found.late_rows, found.bad_records) == (5, 100, 2, 3)
    first, second = found.sources
    assert (dict(first.end), first.lag_records) == ({"t/0": 5, "t/1": 7}, 4)
    assert (second.name, second.lag_records) == ("b", None)
    assert found.lag_records is None
    assert (found.lag_seconds, found.lost_records) == (None, 0)
    assert found.watermark == datetime(2026, 11, 21, 7, 59, tzinfo=timezone.utc).timestamp()


def test_what_sources_tell_of_their_lag_and_of_what_they_skipped():
    kafka = {
        "name": "a",
        "endOffset": {"t": {"0": 5}},
        "latestOffset": {"t": {"0": 5}},
        "metrics": {"lost_records": "7", "lost": "t/0"},
    }
    shards = {"shard-0": {"millis_behind": 1500, "lost_records": 2}, "shard-1": {"millis_behind": 200}}
    kinesis = {"name": "b", "endOffset": {"s": {"shard-0": {"s": "49"}}}, "latestOffset": shards}
    found = read_progress({**PROGRESS, "sources": [kafka, kinesis]})
    assert [(s.lag_records, s.lag_seconds, s.lost_records, s.lost) for s in found.sources] == [
        (0, None, 7, "t/0"),
        (None, 1.5, 2, ""),
    ]
    assert (found.lag_records, found.lag_seconds, found.lost_records) == (None, 1.5, 9)


def test_progress_of_a_real_batch(bench):
    bench.compile(
        "CREATE STREAM s (a BIGINT) WITH ('topic' = 's', 'value.format' = 'json');CREATE STREAM d AS SELECT a FROM s;"
    )
    query = bench.start("d")
    bench.send("s", {"a": 1}, {"a": 2})
    bench.settle(query)
    batches = [read_progress(one.json) for one in query.recentProgress]
    assert sum(batch.rows for batch in batches) == 2
    assert all(batch.duration_millis > 0 for batch in batches if batch.rows)
