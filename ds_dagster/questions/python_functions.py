"""User-defined Python functions in questions, called with the same values as in Spark's workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ds_dagster.catalog.user_function import UserFunction
from ds_dagster.datatypes import MapType
from ds_dagster.python_code import by_row, vectorized
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.duck_types import arrow_type


def user_function(function: UserFunction) -> Callable[..., Any]:
    """The function for one row; its module runs in this process, at the first call."""
    code, call = function.code(), vectorized if function.vectorized else by_row
    result = arrow_type(function.returns)
    types = [(type_, arrow_type(type_)) for type_ in function.types]

    def called(*values: Any) -> Any:
        import pyarrow

        pairs = zip(values, types, strict=True)
        columns = [pyarrow.array([value_of(value, type_)], arrow) for value, (type_, arrow) in pairs]
        (answer,) = call(code, columns, result).to_pylist()
        return dict(answer) if isinstance(function.returns, MapType) and answer is not None else answer

    return called
