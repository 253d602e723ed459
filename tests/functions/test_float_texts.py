"""FLOAT and DOUBLE as text: the shortest digits that read back, which Arrow's own printing is asked for."""

from __future__ import annotations

import random
import struct
from decimal import Decimal

import pyarrow as pa

from ds_dagster.functions.values.float_texts import double_text, float_text

BY_JAVA: dict[float, str] = {
    0.0: "0.0",
    1.0: "1.0",
    100.0: "100.0",
    0.001: "0.001",
    0.00099: "9.9E-4",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    2e23: "2.0E23",
    4.9e-324: "4.9E-324",
    1e-323: "9.9E-324",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    1.7976931348623157e308: "1.7976931348623157E308",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}
"""What Double.toString gives from Java 19 on."""
OF_FLOATS = {0x00000001: "1.4E-45", 0x00800000: "1.1754944E-38", 0x7F7FFFFF: "3.4028235E38", 0x486028D8: "229539.38"}
"""Bits → what Float.toString gives from Java 19 on."""


def single(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def test_what_java_writes() -> None:
    assert {value: double_text(value) for value in BY_JAVA} == BY_JAVA
    assert double_text(-0.0) == "-0.0"
    assert double_text(float("nan")) == float_text(float("nan")) == "NaN"
    assert {bits: float_text(single(bits)) for bits in OF_FLOATS} == OF_FLOATS


def test_digits_are_those_of_arrow() -> None:
    numbers = random.Random(1)
    bits = [*(numbers.randrange(0x00800000, 0x7F800000) for _ in range(20_000)), *(e << 23 for e in range(1, 255))]
    values = [single(pattern) for pattern in bits]
    shown = pa.array(values, pa.float32()).cast(pa.string()).to_pylist()
    assert [Decimal(float_text(value)) for value in values] == [Decimal(text) for text in shown]


def test_the_sign_is_kept() -> None:
    assert float_text(single(0x486028D8 | 0x80000000)) == "-229539.38"
