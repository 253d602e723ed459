"""Functions of the bits of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.datatypes import INTEGER, VARCHAR, DataType, common_type
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.question import strict


def _wider(types: Sequence[DataType]) -> DataType:
    type_ = common_type(types[0], types[1])
    assert type_ is not None
    return type_


def _unsigned(number: int) -> int:
    """The 64 bits of a BIGINT as a number without a sign."""
    return number if number >= 0 else number + (1 << 64)


BIT_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "BIN",
        "integer",
        VARCHAR,
        "the number in binary digits",
        ("BIN(10)", "'1010'"),
        spark="bin",
        question=strict(lambda number: format(_unsigned(number), "b")),
    ),
    scalar(
        "BITCOUNT",
        "integer",
        INTEGER,
        "number of bits that are 1",
        ("BITCOUNT(7)", "3"),
        aliases=("BIT_COUNT",),
        spark="bit_count",
        question=strict(lambda number: format(_unsigned(number), "b").count("1")),
    ),
    scalar(
        "BITAND",
        "integer integer",
        _wider,
        "the bits that are 1 in both, as a number of the wider type",
        ("BITAND(12, 10)", "8"),
        ("BITAND(6, 4) = 4", "TRUE"),
        spark=lambda _, left, right: left.bitwiseAND(right),
        question=strict(lambda left, right: left & right),
    ),
    scalar(
        "BITOR",
        "integer integer",
        _wider,
        "the bits that are 1 in either or both, as a number of the wider type",
        ("BITOR(12, 10)", "14"),
        ("BITOR(4, 4)", "4"),
        spark=lambda _, left, right: left.bitwiseOR(right),
        question=strict(lambda left, right: left | right),
    ),
)
