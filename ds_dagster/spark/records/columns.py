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
"""TIMESTAMP: event time of a row; carries the watermark after ticks were added."""
DELETED: Final = "__deleted"
"""BOOLEAN, never NULL: the row deletes its key; present on upsert flows that may delete."""
PARTITION: Final = "__partition"
ORDER: Final = "__order"
"""Two columns of text: the partition of a row in its entity, and its position there, which sorts as text."""
WEIGHT: Final = "__weight"
"""BIGINT, never zero: number of copies of the row that are added, or retracted if negative; on rows with weights."""
WINDOW: Final = "__window"
"""STRUCT of start and end, carries the watermark."""
PANE: Final = "__pane"
"""TIMESTAMP: begin of a row's pane: all rows of a pane are in the same windows; carries the watermark."""
RECORD: Final = "__record"
"""STRUCT of the columns of a row log that identify the record of a row."""

PAYLOAD: Final = "__payload"
"""BINARY: undecoded value of the record that a row was read from."""

TECHNICAL: Final = frozenset({EVENT_TIME, DELETED, PARTITION, ORDER, WEIGHT, WINDOW, PANE, RECORD, PAYLOAD})

AS_JSON: Final = MappingProxyType(
    {
        "ignoreNullFields": "false",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
)
"""Options with which Spark's ``to_json`` loses no part of a value; by default it cuts microseconds and drops NULLs."""


def field(name: str) -> Column:
    """A column by its exact name (``a$b``, ``a.b``)."""
    return sf.col("`" + name.replace("`", "``") + "`")


def event_time(value: Column, type_: DataType) -> Column:
    """A column's value as event time (TIMESTAMP): whole numbers are epoch milliseconds; NULL if it is not a time."""
    return moment(sf, value, 1000, safe=True) if is_integer(type_) else value.try_cast("timestamp")


def deleted(frame: DataFrame) -> Column:
    """Whether a row deletes its key; false if the frame has no deletes."""
    return sf.col(DELETED) if DELETED in frame.columns else sf.lit(False)


def with_missing(frame: DataFrame, name: str, other: DataFrame) -> DataFrame:
    """The frame with a column of the other frame, all NULL, so that both frames can form one stream."""
    return frame.withColumn(name, sf.lit(None).cast(other.schema[name].dataType))


def opaque(value: Column) -> Column:
    """The value behind a condition that the optimizer can neither fold nor move.

    Without it, the optimizer copies a filter above below the projection, together with the expression that the filter
    reads, and an expensive decode runs once for the filter and once for the result.
    """
    return sf.when(sf.spark_partition_id() >= 0, value)


def opaque_condition(condition: Column) -> Column:
    """A condition that remains a separate filter: the optimizer merges no later filters into it, so none of them runs
    before it."""
    return (sf.spark_partition_id() >= 0) & condition


def never() -> Column:
    """A condition that is false for every row. The optimizer cannot see that, so the steps below are computed."""
    return sf.spark_partition_id() < 0


def failure(condition: str, **params: Column | str) -> Column:
    """A column of type VOID that fails the batch with a named condition; parameters must hold no payload."""
    struct = sf.struct(*[(sf.lit(v) if isinstance(v, str) else v.cast("string")).alias(k) for k, v in params.items()])
    return sf.raise_error(sf.concat(sf.lit(f"{MARK}{condition}] "), sf.to_json(struct)))


def required(condition: Column, otherwise: Column) -> Column:
    """True if the condition holds, else the failure."""
    return sf.when(condition, sf.lit(True)).otherwise(otherwise.cast("boolean"))
