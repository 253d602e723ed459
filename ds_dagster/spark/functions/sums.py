"""Long chains of ``+`` and ``-``: Spark walks a tree of operators recursively and fails at a few hundred of them.

A longer chain becomes a fold over an array of its operands, from left to right: partial sums, NULL and overflow are as
in the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

MOST_OPERATORS = 100
"""Number of operators that are compiled to a tree; later operands are folded."""
TypeOf = Callable[[Column], spark_types.DataType]


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that is added or, with ``minus``, subtracted."""

    value: Column
    minus: bool


def added(first: Column, operands: Sequence[Operand], type_of: TypeOf) -> Column:
    """The first value and all operands from left to right.

    Args:
        type_of: gives the Spark type of a column.
    """
    total = first
    for operand in operands[:MOST_OPERATORS]:
        total = _applied(total, operand)
    rest = operands[MOST_OPERATORS:]
    return total if not rest else _folded(total, rest, type_of)


def _applied(total: Column, operand: Operand) -> Column:
    return total - operand.value if operand.minus else total + operand.value


def _folded(total: Column, operands: Sequence[Operand], type_of: TypeOf) -> Column:
    """The sum as folds, one for each run of operands that do not change the type of the sum."""
    struct = cast(spark_types.StructType, type_of(sf.struct(*[operand.value for operand in operands])))
    types: dict[tuple[str, str, bool], spark_types.DataType] = {}
    type_, run = type_of(total), list[Operand]()
    run_of: spark_types.DataType | None = None
    for operand, field in zip(operands, struct.fields, strict=True):
        key = (type_.simpleString(), field.dataType.simpleString(), operand.minus)
        if key not in types:
            types[key] = type_of(_applied(_null(type_), Operand(_null(field.dataType), operand.minus)))
        kind = field.dataType if isinstance(type_, spark_types.DecimalType) else type_
        if run and (types[key] != type_ or kind != run_of):
            total, run = _fold(total, run, type_), []
        if types[key] == type_:
            run.append(Operand(operand.value.cast(kind), operand.minus))
            run_of = kind
        else:
            total, type_ = _applied(total, operand), types[key]
    return _fold(total, run, type_) if run else total


def _fold(total: Column, run: Sequence[Operand], type_: spark_types.DataType) -> Column:
    rows = [sf.struct(operand.value.alias("value"), sf.lit(operand.minus).alias("minus")) for operand in run]

    def merged(sum_: Column, row: Column) -> Column:
        value = row.getField("value")
        return sf.when(row.getField("minus"), sum_ - value).otherwise(sum_ + value).cast(type_)

    return sf.aggregate(sf.array(*rows), total, merged)


def _null(type_: spark_types.DataType) -> Column:
    return sf.lit(None).cast(type_)
