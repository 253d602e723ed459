"""User-defined functions on Spark: Java classes run in the JVM, Python in Spark's worker processes, over Arrow.

User code never runs in the engine's own Python process. A worker compiles the module's text once, as it was when the
query was compiled, and finds other modules of the project next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from ds_dagster.catalog.user_function import UserFunction
from ds_dagster.python_code import by_row, vectorized
from ds_dagster.spark.crossing import enveloped
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.typemap import spark_sql, to_spark


def user_call(spark: SparkSession, function: UserFunction, arguments: Sequence[Column]) -> Column:
    """A call of a function, with its arguments cast to the function's types.

    Raises:
        UserError: FUNCTION_CLASS_UNFIT, wrapped in an exception of Spark.
    """
    typed = [value.cast(spark_sql(type_)) for value, type_ in zip(arguments, function.types, strict=True)]
    result = to_spark(function.returns)
    if function.language == "python":
        make = cast(Callable[..., Callable[..., Column]], arrow_udf)
        return make(_python(function, result), result)(*typed)
    types = spark_types.StructType()
    for index, type_ in enumerate(function.types):
        types.add(f"a{index}", to_spark(type_))
    struct = sf.struct(*[value.alias(f"a{index}") for index, value in enumerate(typed)])
    return operators(spark).java_function(
        str(function),
        jar=function.file,
        digest=function.digest,
        entry=function.entry,
        types=types,
        result=result,
        arguments=struct,
    )


def _python(function: UserFunction, result: spark_types.DataType) -> Callable[..., Any]:
    """The function that a worker calls with one Arrow array per argument."""
    code = function.code()
    call = vectorized if function.vectorized else by_row
    type_ = to_arrow_type(result)

    def run(*columns: pyarrow.Array) -> pyarrow.Array:
        with enveloped():
            return call(code, columns, type_)

    return run
