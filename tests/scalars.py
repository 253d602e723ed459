"""The table of scalar meaning (``tests/fixtures/scalars/*.tsv``): expression, Flink's answer, and how an engine is held
to it.

A row has four or five columns: an expression of the dialect over :data:`COLUMNS`, Flink's answer, where that is from
(a file of Flink's tests or documentation, or ``rule`` where it follows from one), and, where ours differs on purpose,
our answer and the reason.

Expressions and answers marked with a file follow the tests and documentation of Apache Flink (Apache License 2.0).

An answer is ``NULL``, ``ERROR`` (the row fails) or the value's text: texts in quotes, bytes as ``x'00ff'``, everything
else as CAST to VARCHAR gives it in Flink.

An engine is plugged in as a function from expressions to answers, see :data:`Engine`, and
``tests/spark/functions/test_scalars.py`` for Spark.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ds_dagster.datatypes import FLOATS, ArrayType, DataType, MapType, Scalar, StructType

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


Answer = str | float
"""In the table's form; a FLOAT or DOUBLE as a number."""
Engine = Callable[[Sequence[str]], Sequence[Answer]]
"""Expressions → their answers."""


def wrong_answers(rows: Sequence[ScalarRow], engine: Engine) -> list[str]:
    """Lines that tell which expressions an engine answers differently."""
    found = engine([row.expression for row in rows])
    return [
        f"{row.place} {row.expression}: {answer}, expected {row.expected}"
        for row, answer in zip(rows, found, strict=True)
        if not same_answer(answer, row.expected)
    ]


def same_answer(answer: Answer, expected: str) -> bool:
    """Equal texts; floats by value (and sign of zero), to the last digits that platforms differ in."""
    if isinstance(answer, str):
        return answer == expected
    try:
        other = float(expected)
    except ValueError:
        return False
    if math.isnan(answer) or math.isnan(other):
        return math.isnan(answer) and math.isnan(other)
    return math.isclose(answer, other, rel_tol=1e-14) and math.copysign(1, answer) == math.copysign(1, other)


# --- values as answers ------------------------------------------------------------------------------------------------


def answer_of(value: Any, type_: DataType) -> Answer:
    """A value as an engine gives it to Python (Arrow's ``to_pylist``) in the table's form."""
    if value is None:
        return "NULL"
    name = type_.name if isinstance(type_, Scalar) else ""
    if name == "VARCHAR":
        return f"'{value}'"
    if name == "VARBINARY":
        return f"x'{bytes(value).hex()}'"
    return float(_text(value, type_)) if name in FLOATS else _text(value, type_)


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
    return _text_of_float(value, type_.name == "FLOAT") if isinstance(value, float) else str(value)


def _with_digits(text: str, micros: int, precision: int | None, default: int) -> str:
    digits = default if precision is None else precision
    return text + ("." + f"{micros:06d}".ljust(9, "0")[:digits] if digits else "")


def _text_of_float(value: float, narrow: bool) -> str:
    """The shortest text that is this number, of 32 bits where it is ``narrow``, as Java writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if narrow:
        value = next(short for digits in range(1, 10) if _narrowed(short := float(f"{value:.{digits}g}")) == value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _narrowed(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
