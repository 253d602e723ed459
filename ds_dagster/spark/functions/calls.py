"""A call of a function on Spark: the ``spark`` entry of its record, applied to the columns of its arguments."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.functions.spark import OfCall, SparkCall
from ds_dagster.functions.table import ROW_FUNCTIONS


def called(name: str, call: SparkCall) -> Column:
    """The column of a call, from the function's record."""
    meaning = ROW_FUNCTIONS[name].spark
    if isinstance(meaning, str):
        return sf.call_function(meaning, *call.columns)
    column: Column = meaning.build(sf, call) if isinstance(meaning, OfCall) else meaning(sf, *call.columns)
    return column
