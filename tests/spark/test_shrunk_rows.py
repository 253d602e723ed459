"""Rows that are brought down within a task before they are sent: the same sums, whether keys repeat or not."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.spark.jvm import operators
from ds_dagster.spark.session import job_session

# how the keys of a batch come: often, so that few rows leave; never twice, so that nothing is held; first often, then
# more of them than are held at a time
BATCHES = {
    "often": "SELECT id, CAST(id % 200 AS BIGINT) AS k FROM range(12000)",
    "once": "SELECT id, CAST(id + 1000 AS BIGINT) AS k FROM range(12000)",
    "many": "SELECT id, CAST(if(id < 9000, id % 300, id) AS BIGINT) AS k FROM range(80000)",
}
COLUMNS = """k, lpad(CAST(id AS STRING), 9, '0') AS ord, id % 17 = 5 AS deleted, pmod(hash(k), 50) AS grp,
  CAST(pmod(hash(id), 4000) AS DOUBLE) / 4 AS price, CAST(pmod(hash(id, 1), 100000) / 100 AS DECIMAL(10, 2)) AS paid,
  {wide} AS wide"""
WIDE = {
    "often": "CAST(if(id % 200 < 3, 9000000000000000000, id) AS BIGINT)",  # more than a BIGINT holds, in one task
    "once": "id",
    "many": "id",
}
CALLS = [
    {"function": "COUNT", "argument": -1, "distinct": False, "type": "long"},
    {"function": "COUNT", "argument": 0, "distinct": False, "type": "long"},
    {"function": "SUM", "argument": 0, "distinct": False, "type": "double"},
    {"function": "SUM", "argument": 1, "distinct": False, "type": "decimal(38,2)"},
    {"function": "SUM", "argument": 2, "distinct": False, "type": "decimal(38,0)"},
    {"function": "STDDEV_POP", "argument": 0, "distinct": False, "type": "double"},
]
QUESTION = """SELECT grp, count(*), count(price), sum(price), sum(paid), sum(wide::HUGEINT), stddev_pop(price)
  FROM (SELECT * FROM read_parquet({files}) QUALIFY row_number() OVER (PARTITION BY k ORDER BY file DESC, ord DESC) = 1)
  WHERE NOT deleted GROUP BY grp"""


def write(spark: SparkSession, folder: Path, name: str) -> None:
    """One file, which is one batch."""
    rows = spark.sql(f"SELECT {COLUMNS.format(wide=WIDE[name])} FROM ({BATCHES[name]})")
    number = list(BATCHES).index(name)
    rows = rows.withColumn("price", sf.expr("if(k % 50 = 7, NULL, price)")).withColumn("file", sf.lit(number))
    rows.coalesce(1).write.mode("append").parquet(str(folder / "rows"))


def sums(session: SparkSession, rows: DataFrame) -> DataFrame:
    """Each key's last row, and groups of them, over two tasks; the last batch in one of them."""
    payload = sf.struct("grp", "price", "paid", "wide").alias("row")
    spread = rows.repartition(2, sf.when(sf.col("file") == len(BATCHES) - 1, "together").otherwise(sf.col("ord")))
    keyed = spread.select(sf.col("k").alias("k0"), sf.col("ord").cast("binary").alias("ord"), "deleted", payload)
    weighted = operators(session).upsert_to_delta(keyed, 1)
    arguments = [sf.col(f"row.{name}").alias(f"a{i}") for i, name in enumerate(("price", "paid", "wide"))]
    groups = weighted.select(sf.col("row.grp").alias("k0"), *arguments, "w").repartition(2)
    return operators(session).delta_aggregate(groups, 1, json.dumps(CALLS), appends_only=False, weighted=False)


def answer(folder: Path) -> dict[int, tuple[object, ...]]:
    files = [str(path) for path in (folder / "rows").glob("*.parquet")]
    with duckdb.connect() as database:
        return {row[0]: row[1:] for row in database.execute(QUESTION.format(files=files)).fetchall()}


def test_sums_are_the_same_however_keys_repeat(spark: SparkSession, tmp_path: Path) -> None:
    session = job_session(spark, {}, "rocksdb")
    session.conf.set("spark.sql.shuffle.partitions", 2)
    found: dict[int, tuple[object, ...]] = {}

    def take(batch: DataFrame, _epoch: int) -> None:
        for row in batch.collect():
            found.pop(row.k0, None)
            if not row.deleted:
                found[row.k0] = tuple(row[f"c{index}"] for index in range(len(CALLS)))

    for names in (("often", "once"), ("many",)):  # and a restart between them
        for name in names:
            write(spark, tmp_path, name)
        schema = session.read.parquet(str(tmp_path / "rows")).schema
        source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).name("rows")
        made = sums(session, source.parquet(str(tmp_path / "rows")))
        writer = made.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "state"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    expected = answer(tmp_path)
    assert found.keys() == expected.keys()
    for group, values in expected.items():
        assert found[group][:5] == values[:5], group
        assert found[group][5] == pytest.approx(values[5]), group
