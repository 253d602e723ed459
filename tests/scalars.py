"""The table of scalar meaning (``tests/fixtures/scalars/*.tsv``): expression, Flink's answer, and how an engine is held
to it.

A row has four or five columns: an expression of the dialect over :data:`COLUMNS`, Flink's answer, where that is from
(a file of Flink's tests or documentation, or ``rule`` where it follows from one), and, where ours differs on purpose,
our answer and the reason.

An answer is ``NULL``, ``ERROR`` (the row fails) or the value's text: texts in quotes, bytes as ``x'00ff'``, everything
else as CAST to VARCHAR gives it in Flink.

An engine is plugged in as a function from expressions to answers: see :func:`wrong_answers`, and
``tests/spark/test_scalars.py`` for Spark.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType

FOLDER = Path(__file__).parent / "fixtures" / "scalars"
ERROR = "ERROR"
COLUMNS: Mapping[str, tuple[str, object]] = {
    "n": ("INTEGER", None),
    "v": ("VARCHAR", None),
    "nd": ("DOUBLE", None),
    "nts": ("TIMESTAMP(3)", None),
    "nb": ("BOOLEAN", None),
    "nan": ("DOUBLE", "NaN"),
    "inf": ("DOUBLE", "Infinity"),
    "st": ("STRUCT<a INTEGER, b VARCHAR>", {"a": 123456, "b": "Flink"}),
    "stn": ("STRUCT<a INTEGER, b VARCHAR>", {"a": None, "b": None}),
    "deep": (
        "STRUCT<t TIMESTAMP(3), f BOOLEAN, l ARRAY<DOUBLE>, m MAP<VARCHAR, INTEGER>>",
        {"t": "2024-01-31 10:11:12.5", "f": True, "l": [1.0, None], "m": {"k": 1}},
    ),
    "nst": ("STRUCT<a INTEGER, b VARCHAR>", None),
    "na": ("ARRAY<INTEGER>", None),
    "nm": ("MAP<VARCHAR, INTEGER>", None),
    "l": ("ARRAY<INTEGER>", [1, None, 3]),
    "m": ("MAP<VARCHAR, INTEGER>", {"a": 1, "b": None}),
}
"""Columns every expression may read: type, and the value as JSON has it (``NaN`` and ``Infinity`` as texts)."""


@dataclass(frozen=True, slots=True)
class ScalarRow:
    """One row of the table; ``place``: file and line; ``ours`` is empty where it is Flink's answer."""

    place: str
    expression: str
    flink: str
    source: str
    ours: str = ""
    reason: str = ""

    @property
    def expected(self) -> str:
        """The answer of ours."""
        return self.ours or self.flink


def scalar_rows(topic: str) -> list[ScalarRow]:
    """The rows of one file, without ``.tsv``."""
    path = FOLDER / f"{topic}.tsv"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [ScalarRow(f"{path.name}:{number}", *line.split("\t")) for number, line in lines if line and line[0] != "#"]


def topics() -> list[str]:
    """Names of all files."""
    return sorted(path.stem for path in FOLDER.glob("*.tsv"))


def wrong_answers(rows: Sequence[ScalarRow], answers: Callable[[Sequence[str]], Sequence[str]]) -> list[str]:
    """Lines that tell which expressions an engine answers differently.

    Args:
        rows: of the table.
        answers: the engine: expressions → their answers in the table's form.
    """
    found = answers([row.expression for row in rows])
    pairs = zip(rows, found, strict=True)
    return [
        f"{row.place} {row.expression}: {answer}, expected {row.expected}"
        for row, answer in pairs
        if not _same(answer, row.expected)
    ]


def _same(answer: str, expected: str) -> bool:
    """Equal texts; floats by value, to the last digits that platforms differ in."""
    if answer == expected:
        return True
    try:
        one, other = float(answer), float(expected)
    except ValueError:
        return False
    written_as_float = any(letter in answer + expected for letter in ".E")
    return (
        written_as_float
        and math.isclose(one, other, rel_tol=1e-14)
        and math.copysign(1, one) == math.copysign(1, other)
    )


# --- values as answers ------------------------------------------------------------------------------------------------


def answer_of(value: Any, type_: DataType) -> str:
    """A value as an engine gives it to Python (Arrow's ``to_pylist``) in the table's form."""
    if value is None:
        return "NULL"
    if isinstance(type_, Scalar) and type_.name == "VARCHAR":
        return f"'{value}'"
    if isinstance(type_, Scalar) and type_.name == "VARBINARY":
        return f"x'{bytes(value).hex()}'"
    return _text(value, type_)


def _text(value: Any, type_: DataType) -> str:
    if value is None:
        return "NULL"
    if isinstance(type_, ArrayType):
        return "[" + ", ".join(_text(item, type_.element) for item in value) + "]"
    if isinstance(type_, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(f"{_text(k, type_.key)}={_text(v, type_.value)}" for k, v in pairs) + "}"
    if isinstance(type_, StructType):
        return "(" + ", ".join(_text(value[field.name], field.type) for field in type_.fields) + ")"
    return _text_of_scalar(value, type_)


def _text_of_scalar(value: Any, type_: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime.datetime):
        return _with_digits(value.strftime("%Y-%m-%d %H:%M:%S"), value.microsecond, type_.precision, 3)
    if isinstance(value, datetime.time):
        return _with_digits(value.strftime("%H:%M:%S"), value.microsecond, type_.precision, 0)
    if isinstance(value, Decimal):
        return format(value, "f")
    return _text_of_float(value) if isinstance(value, float) else str(value)


def _with_digits(text: str, micros: int, precision: int | None, default: int) -> str:
    digits = default if precision is None else precision
    return text + ("." + f"{micros:06d}".ljust(9, "0")[:digits] if digits else "")


def _text_of_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
