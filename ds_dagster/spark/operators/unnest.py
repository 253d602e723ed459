"""UNNEST on Spark: a generator over each row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.datatypes import ArrayType, MapType, StructType
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.typemap import spark_sql

_NUMBER, _KEY, _VALUE = "__number", "__element_key", "__element"


def elements(frame: DataFrame, node: Unnest) -> DataFrame:
    """A row for each element. Technical columns pass; ``ORDER`` gets the number of the element as suffix."""
    value = compile_expression(frame, node.value)
    generated = (sf.posexplode_outer if node.outer else sf.posexplode)(value)
    is_map = isinstance(node.value.type, MapType)
    aliases = (_NUMBER, _KEY, _VALUE) if is_map else (_NUMBER, _VALUE)
    rows = frame.select(*[field(name) for name in frame.columns], generated.alias(*aliases))
    parts = _parts(node)
    if node.ordinal is not None:
        parts[node.ordinal.name] = sf.col(_NUMBER) + 1
    passed = [_position() if name == names.ORDER else field(name) for name in frame.columns]
    types = {own_field.name: own_field.type for own_field in node.own}
    own = [column.cast(spark_sql(types[name])).alias(name) for name, column in parts.items()]
    return rows.select(*passed, *own)


def _parts(node: Unnest) -> dict[str, Column]:
    """Field → its column of an element."""
    type_ = node.value.type
    if isinstance(type_, MapType):
        key, value = node.elements
        return {key.name: sf.col(_KEY), value.name: sf.col(_VALUE)}
    if isinstance(type_, ArrayType) and isinstance(type_.element, StructType):
        fields = zip(node.elements, type_.element.fields, strict=True)
        return {own.name: sf.col(_VALUE).getField(part.name) for own, part in fields}
    return {node.elements[0].name: sf.col(_VALUE)}


def _position() -> Column:
    number = sf.coalesce(sf.col(_NUMBER), sf.lit(0)).cast("string")
    return sf.concat(sf.col(names.ORDER), sf.lit("."), sf.lpad(number, 10, "0")).alias(names.ORDER)
