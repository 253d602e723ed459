"""Functions of the user on Spark: classes in the JVM, Python in Spark's worker processes, fed by Arrow.

Code of the user never runs in the engine's own Python process: a worker compiles the module's text, as it was when
the query was compiled, once, and finds other modules of the project beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from ds_dagster.catalog.user_function import UserFunction
from ds_dagster.errors import DsError, error
from ds_dagster.spark.crossing import enveloped
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.typemap import spark_sql, to_spark


def user_call(spark: SparkSession, function: UserFunction, arguments: Sequence[Column]) -> Column:
    """A call of a function, its arguments in the function's types.

    Raises:
        UserError: FUNCTION_CLASS_UNFIT, through Spark.
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


@dataclass(frozen=True, slots=True)
class PythonCode:
    """A function in the text of a module: ``shown`` in messages, ``root`` where it imports from."""

    shown: str
    root: str
    file: str
    text: str
    entry: str


def _python(function: UserFunction, result: spark_types.DataType) -> Callable[..., Any]:
    """What a worker calls with an Arrow array per argument."""
    text = Path(function.file).read_text(encoding="utf-8")
    code = PythonCode(str(function), function.root, function.file, text, function.entry)
    call = vectorized if function.vectorized else by_row
    type_ = to_arrow_type(result)

    def run(*columns: pyarrow.Array) -> pyarrow.Array:
        with enveloped():
            return call(code, columns, type_)

    return run


def by_row(code: PythonCode, columns: Sequence[pyarrow.Array], type_: pyarrow.DataType) -> pyarrow.Array:
    """The function's result for every row; NULL is None."""
    function = loaded(code)
    rows = zip(*[column.to_pylist() for column in columns], strict=True)
    return _array(code, _called(code, lambda: [function(*row) for row in rows]), type_)


def vectorized(code: PythonCode, columns: Sequence[pyarrow.Array], type_: pyarrow.DataType) -> pyarrow.Array:
    """One call for all rows of a batch."""
    function = loaded(code)
    made = _called(code, lambda: function(*columns))
    if isinstance(made, pyarrow.ChunkedArray):
        made = made.combine_chunks()
    if not isinstance(made, pyarrow.Array) or len(made) != len(columns[0]):
        raise error("FUNCTION_FAILED", function=code.shown, reason="it gave no Arrow array of one element per row")
    return made if made.type == type_ else _array(code, made.to_pylist(), type_)


def _called(code: PythonCode, call: Callable[[], Any]) -> Any:
    """The result of user code; its exception is told by class and line, since its text may hold data."""
    try:
        return call()
    except Exception as problem:  # noqa: BLE001, whatever the code of the user raises
        raise error("FUNCTION_FAILED", function=code.shown, reason=_place(code, problem)) from None


def _place(code: PythonCode, problem: Exception) -> str:
    line, trace = None, problem.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == code.file else line
        trace = trace.tb_next
    where = f" in line {line}" if line is not None else ""
    return f"{type(problem).__name__}{where} of {Path(code.file).name}"


def _array(code: PythonCode, values: Sequence[object], type_: pyarrow.DataType) -> pyarrow.Array:
    try:
        return pyarrow.array(values, type=type_)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        raise error("FUNCTION_FAILED", function=code.shown, reason=f"it gave a value that is no {type_}") from None


@lru_cache(maxsize=256)
def loaded(code: PythonCode) -> Callable[..., Any]:
    """The function, its module run once per worker process.

    Raises:
        UserError: FUNCTION_FAILED.
    """
    if code.root not in sys.path:
        sys.path.append(code.root)
    names: dict[str, Any] = {"__name__": Path(code.file).stem, "__file__": code.file}
    try:
        exec(compile(code.text, code.file, "exec"), names)
    except DsError:
        raise
    except Exception as problem:  # noqa: BLE001, whatever the code of the user raises
        raise error("FUNCTION_FAILED", function=code.shown, reason=_place(code, problem)) from None
    function: Callable[..., Any] = names[code.entry]
    return function
