"""Frames whose event time is moved only by ticks: readers that report to a job's clock, and unions with its ticks.

Pitfalls, all seen in practice:

1. Data rows must never move Spark's watermark. So the ticks carry it, in a child of a union that returns no rows: the
   filter after the watermark drops every tick. The filter compares the time column itself, so it stays above the
   watermark. A union has the column metadata of its first child, the data; there we set the metadata ourselves.
2. The tick branch's other columns come from a projection that is not deterministic. An inferred IS NOT NULL would
   remove a branch with literal nulls, and with it the watermark, so time would stop; a WHERE on the data would be
   pushed below the watermark and drop the ticks.
3. Spark drops late rows before an operator if a column has watermark metadata. Windows need that; the temporal join
   must not lose rows, so its time column is rewritten and loses the metadata. The watermark itself still arrives.
4. Our operators and computed columns lose the metadata; :func:`carry_time` restores it for later windows. The number in
   it is not used, the watermark comes from the ticks.
5. Every tick source of a job returns the same time, so results do not depend on the order in which Spark asks sources
   for offsets; latency does. Ticks are the right child: Spark asks for offsets left to right (up to four leaves), so a
   tick covers the rows of its own batch and closes their windows in it. On the left it would be a batch older.
6. With source evolution on, every source needs a name, ticks included; in a plan that reads a source twice it must be
   off, and then no source may have a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from ds_dagster.spark.jvm import TICK_SOURCE, TIMED_SOURCE, Operators, operators
from ds_dagster.spark.records.columns import field

WATERMARK_METADATA = {"spark.watermarkDelayMs": 0}
_BEFORE_ALL_TIME = "0001-01-02 00:00:00"


def timed_reader(
    spark: SparkSession,
    job: str,
    input_name: str,
    *,
    inner: str,
    options: Mapping[str, str],
    source_name: str,
    guard: bool = False,
) -> DataFrame:
    """Read ``inner`` so that every poll for new data is reported to the job's clock.

    Args:
        spark: session with the jar.
        job: name of the job; its clock is registered already.
        input_name: name of the input in the clock's configuration.
        inner: format of the wrapped source, native or a registered Python data source.
        options: of the wrapped source.
        source_name: name in the checkpoint (letters, digits, underscore); empty: no name.
        guard: a Kafka topic of broker time, read with ``read_committed``: open upstream transactions hold back time.
    """
    reader = spark.readStream.format(TIMED_SOURCE).options(**options)
    reader = reader.name(source_name) if source_name else reader
    reader = reader.option("ds.inner", inner).option("ds.job", job).option("ds.input", input_name)
    return (reader.option("ds.guard", "kafka") if guard else reader).load()


def with_ticks(spark: SparkSession, job: str, frame: DataFrame, time: str, source_name: str) -> DataFrame:
    """``frame`` with its column ``time`` (timestamp) as event time, which the job's ticks move.

    Columns and rows are unchanged; the operators above drop and count rows older than the ticks.
    """
    marked = [carry_time(field(name), name) if name == time else field(name) for name in frame.columns]
    return frame.select(*marked).union(_ticks(operators(spark), job, frame, time, source_name))


def temporal_input(spark: SparkSession, job: str, sides: tuple[DataFrame, ...], source_name: str | None) -> DataFrame:
    """The input of an event-time temporal join: the union of both sides, time from one tick source, no late filter.

    Args:
        spark: session with the jar.
        job: name of the job whose clock gives ticks.
        sides: frames with the join's columns and ``et`` (timestamp); all have the same columns.
        source_name: name of the tick source in the checkpoint; empty: no name; None: no ticks, since a step below has
            set the watermark on the first side.
    """
    rows = reduce(DataFrame.unionByName, sides)
    timed = rows if source_name is None else with_ticks(spark, job, rows, "et", source_name)
    return timed.withColumn("et", fn.timestamp_micros(fn.unix_micros("et")))


def carry_time(column: Column, name: str, **metadata: object) -> Column:
    """``column`` named ``name`` with watermark metadata, above a projection or operator that lost it, and with more
    ``metadata``."""
    return column.alias(name, metadata={**WATERMARK_METADATA, **metadata})


def _ticks(jvm: Operators, job: str, frame: DataFrame, time: str, source_name: str) -> DataFrame:
    reader = jvm.spark.readStream.format(TICK_SOURCE).option("ds.job", job)
    source = (reader.name(source_name) if source_name else reader).load()
    moved = source.withColumnRenamed("ts", time).withWatermark(time, "0 seconds")
    columns = [
        fn.col(time) if item.name == time else jvm.opaque_null(item.dataType).alias(item.name)
        for item in frame.schema.fields
    ]
    return moved.select(*columns).where(fn.col(time) < fn.lit(_BEFORE_ALL_TIME).cast("timestamp"))
