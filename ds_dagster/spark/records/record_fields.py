"""Metadata of a record as columns of its scan: ``rowkey()``, ``rowmetadata()``, and its place in time order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType, Scalar, StructType
from ds_dagster.plan.expressions.record_fields import ORDER_FIELD
from ds_dagster.plan.nodes.node import Field
from ds_dagster.plan.nodes.scan import METADATA_FIELD, Scan
from ds_dagster.spark.records.primitives import check_primitive, decode_primitive
from ds_dagster.spark.records.typemap import spark_sql

if TYPE_CHECKING:
    from ds_dagster.spark.records.formats import SourceFrame


def record_field(source: SourceFrame, scan: Scan, beside: Field, time: Column) -> Column:
    """``rowkey()``, ``rowmetadata()`` or the place in time order; ``time``: the record's event time."""
    if beside.name.endswith(ORDER_FIELD):
        return place(time, source)
    if not beside.name.endswith(METADATA_FIELD):
        return _key_as_text(source, scan.relation)
    if source.envelope.metadata or not isinstance(beside.type, StructType):
        return sf.expr(source.envelope.metadata).cast(spark_sql(beside.type))
    entity = scan.relation.entity
    known_fields = {
        "topic": sf.lit(entity),
        "stream": sf.lit(entity),
        "partition": sf.expr(source.envelope.partition),
        "shard_id": sf.expr(source.envelope.partition),
        "offset": sf.expr(source.envelope.order),
        "sequence_number": sf.ltrim(sf.expr(source.envelope.order), sf.lit("0")),
        "partition_key": sf.expr(source.envelope.key).cast("string"),
    }
    return sf.struct(
        *[known_fields.get(f.name, sf.lit(None)).try_cast(spark_sql(f.type)).alias(f.name) for f in beside.type.fields]
    )


def place(time: Column, source: SourceFrame) -> Column:
    """Place in time order, of type :data:`ds_dagster.plan.expressions.record_fields.ORDER`."""
    return sf.struct(sf.unix_micros(time).alias("time"), sf.expr(source.envelope.order).alias("position"))


def _key_as_text(source: SourceFrame, relation: Relation) -> Column:
    """The record's key as text; bytes of a primitive number as the number."""
    raw = sf.expr(source.envelope.key)
    key = relation.key
    type_ = key.type if key.type is not None or len(key.columns) != 1 else _type_of(relation, key.columns[0])
    if key.format == "primitive" and not source.text_keys and isinstance(type_, Scalar):
        checked = check_primitive(type_, source.entity)
        return decode_primitive(source.frame.sparkSession, raw.cast("binary"), checked).cast("string")
    return raw.cast("string")


def _type_of(relation: Relation, name: str) -> DataType | None:
    column = relation.column(name)
    return None if column is None else column.type
