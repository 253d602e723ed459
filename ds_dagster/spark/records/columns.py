"""Names of the technical columns next to a plan's fields, and small helpers for columns."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.datatypes import DataType, is_integer
from ds_dagster.envelope import MARK
from ds_dagster.functions.spark import moment

EVENT_TIME: Final = "__event_time"
"""TIMESTAMP: event time of a row; carries the watermark after the clock was attached."""
DELETED: Final = "__deleted"
"""BOOLEAN, never NULL: the row deletes its key; present on upsert flows that may delete."""
PARTITION: Final = "__partition"
ORDER: Final = "__order"
"""Text: a row's ordered part of its entity and its position there, sortable."""
WEIGHT: Final = "__weight"
"""BIGINT, never zero: copies of the row that are added, below zero: retracted; present on rows with weights."""
WINDOW: Final = "__window"
"""STRUCT of start and end, carries the watermark."""
RECORD: Final = "__record"
"""STRUCT of the columns of a row log that say which record a row was read from."""

PAYLOAD: Final = "__payload"
"""BINARY: value of the record that a row was read from, as it came."""

TECHNICAL: Final = frozenset({EVENT_TIME, DELETED, PARTITION, ORDER, WEIGHT, WINDOW, RECORD, PAYLOAD})

AS_JSON: Final = MappingProxyType(
    {
        "ignoreNullFields": "false",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
)
"""Options of Spark's ``to_json`` with which nothing of a value is lost: it leaves out microseconds by itself."""


def field(name: str) -> Column:
    """A column by its exact name (``a$b``, ``a.b``)."""
    return sf.col("`" + name.replace("`", "``") + "`")


def event_time(value: Column, type_: DataType) -> Column:
    """The column that carries event time, as TIMESTAMP: whole numbers are epoch milliseconds; NULL if it is no time."""
    return moment(sf, value, 1000, safe=True) if is_integer(type_) else value.try_cast("timestamp")


def deleted(frame: DataFrame) -> Column:
    """Whether a row deletes its key; false on flows that never do."""
    return sf.col(DELETED) if DELETED in frame.columns else sf.lit(False)


def with_missing(frame: DataFrame, name: str, other: DataFrame) -> DataFrame:
    """The frame with a column of the other one, all NULL, so that both can be one stream."""
    return frame.withColumn(name, sf.lit(None).cast(other.schema[name].dataType))


def opaque(value: Column) -> Column:
    """The same value after a condition the optimizer can neither fold nor move.

    Without it a filter above would be copied below the projection together with the expression it reads, and an
    expensive decode would run once for the filter and once for the result.
    """
    return sf.when(sf.spark_partition_id() >= 0, value)


def opaque_condition(condition: Column) -> Column:
    """A condition that stays a filter of its own: later filters are not merged into it, so nothing is tested
    before it."""
    return (sf.spark_partition_id() >= 0) & condition


def never() -> Column:
    """A condition that is false for every row, which Spark does not know: steps below it are computed."""
    return sf.spark_partition_id() < 0


def failure(condition: str, **params: Column | str) -> Column:
    """A column of type VOID that fails the batch with a named condition; parameters must hold no payload."""
    struct = sf.struct(*[(sf.lit(v) if isinstance(v, str) else v.cast("string")).alias(k) for k, v in params.items()])
    return sf.raise_error(sf.concat(sf.lit(f"{MARK}{condition}] "), sf.to_json(struct)))


def required(condition: Column, otherwise: Column) -> Column:
    """True where the condition holds, else the failure."""
    return sf.when(condition, sf.lit(True)).otherwise(otherwise.cast("boolean"))
