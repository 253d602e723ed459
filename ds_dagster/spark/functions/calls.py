"""A call of a function on Spark: its arguments, and the shapes most functions have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types


class Arguments(Protocol):
    """Arguments of one call."""

    @property
    def columns(self) -> list[Column]:
        """The arguments, left to right."""

    def literal(self, position: int) -> str | None:
        """Text of an argument that is written as a text literal, else None."""

    def function(self, position: int) -> str:
        """Name of the function an argument calls, empty for what is no call."""

    def type_of(self, position: int) -> spark_types.DataType:
        """Spark's type of an argument."""


Scalar = Callable[[Arguments], Column]


def plain(function: Callable[..., Column]) -> Scalar:
    """A function of PySpark with the same meaning and order of arguments."""
    return lambda arguments: function(*arguments.columns)


def named(name: str) -> Scalar:
    """A function of Spark SQL with the same meaning and order of arguments, by its name."""
    return lambda arguments: sf.call_function(name, *arguments.columns)
