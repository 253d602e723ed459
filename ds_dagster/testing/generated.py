"""Records of a ``send`` that a Spark query makes: many records without a file."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.testing.case import SentRecord

COLUMNS = ("key", "value", "at", "partition")
"""Columns that the query may select; ``value`` is required."""
_NESTED = (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)
_MICROS = "yyyy-MM-dd HH:mm:ss.SSSSSS"
_JSON = {"ignoreNullFields": "false", "timestampFormat": _MICROS + "X", "timestampNTZFormat": _MICROS}


def generated(spark: SparkSession, query: str, partition: str, span: Span) -> tuple[SentRecord, ...]:
    """The rows of a query, in its order.

    Args:
        spark: shared session; the query runs in a new session without its temporary views.
        query: one SELECT in Spark's SQL of :data:`COLUMNS`. Structs, lists and maps become JSON (timestamps with
            microseconds), bytes remain bytes, everything else becomes text; ``at`` is in epoch milliseconds.
        partition: of rows without one.
        span: of the query, for errors.

    Raises:
        UserError: CASE_GENERATOR: the text is not a query, Spark refuses it, or it selects other columns.
    """
    try:
        trees = parse(query, dialect="spark", error_level=ErrorLevel.RAISE)
        if len(trees) != 1:
            raise error("CASE_GENERATOR", span=span, reason="it is more than one statement")
        if not isinstance(trees[0], exp.Query):
            raise error("CASE_GENERATOR", span=span, reason="it is not a SELECT")
        frame = spark.newSession().sql(query)
        _check(frame.columns, span)
        rows = _shown(frame).collect()
    except (SqlglotError, PySparkException) as problem:
        raise error("CASE_GENERATOR", span=span, reason=str(problem).strip().partition("\n")[0]) from problem
    return tuple(
        SentRecord(_plain(row.key), _plain(row.value), row.at, partition if row.partition is None else row.partition)
        for row in rows
    )


def _check(columns: list[str], span: Span) -> None:
    for name in columns:
        if name not in COLUMNS:
            raise error("CASE_GENERATOR", span=span, reason=f"{name}: did you mean {did_you_mean(name, COLUMNS)}?")
    if "value" not in columns:
        raise error("CASE_GENERATOR", span=span, reason="it has no column value")


def _shown(frame: DataFrame) -> DataFrame:
    key, value = (_travels(frame, name).alias(name) for name in ("key", "value"))
    at, partition = (
        (sf.col(name) if name in frame.columns else sf.lit(None)).cast(type_).alias(name)
        for name, type_ in (("at", "bigint"), ("partition", "string"))
    )
    return frame.select(key, value, at, partition)


def _travels(frame: DataFrame, name: str) -> Column:
    if name not in frame.columns:
        return sf.lit(None).cast("string")
    type_ = frame.schema[name].dataType
    if isinstance(type_, _NESTED):
        return sf.to_json(name, _JSON)
    return sf.col(name) if isinstance(type_, spark_types.BinaryType) else sf.col(name).cast("string")


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value
