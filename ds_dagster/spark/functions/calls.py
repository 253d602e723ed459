"""A call of a function on Spark: the meaning of its record over the columns of its arguments."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.errors import error
from ds_dagster.functions.spark import OfCall, SparkCall
from ds_dagster.functions.table import FUNCTIONS


def called(name: str, call: SparkCall) -> Column:
    """The column of a call, by the record of the function.

    Raises:
        InternalError: INTERNAL for a function that is not computed row by row.
    """
    meaning = FUNCTIONS[name].spark
    if meaning is None:
        raise error("INTERNAL", where=f"{name} has no meaning on Spark as the function of a row")
    if isinstance(meaning, str):
        return sf.call_function(meaning, *call.columns)
    column: Column = meaning.build(sf, call) if isinstance(meaning, OfCall) else meaning(sf, *call.columns)
    return column
