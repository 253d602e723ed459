"""Java's formats without Java; ``tests/spark/functions/test_constants.py`` asks Java itself."""

from __future__ import annotations

from ds_dagster.datatypes import BIGINT, DOUBLE, INTEGER, VARCHAR, DataType, Scalar
from ds_dagster.functions.java_format import judge
from ds_dagster.functions.values.formats import formatted

FLOAT = Scalar("FLOAT")
VALUES: tuple[tuple[object, DataType], ...] = (
    (42, INTEGER), (-42, INTEGER), (1234567, INTEGER), (0, INTEGER), (-1, BIGINT), (9876543210, BIGINT),
    (65, INTEGER), ("text", VARCHAR), ("", VARCHAR), (None, VARCHAR), (None, INTEGER), (True, Scalar("BOOLEAN")),
    (1.5, DOUBLE), (-0.0, DOUBLE), (0.000123, DOUBLE), (123456789.987654321, DOUBLE), (2.345, DOUBLE), (0.5, DOUBLE),
    (1e300, DOUBLE), (float("nan"), DOUBLE), (float("-inf"), DOUBLE), (0.25, FLOAT), (9.999995, DOUBLE),
)  # fmt: skip
FORMATS = (
    "%s", "%10s|", "%-10s|", "%.2s", "%S", "%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%,d", "%(d", "%+,012d", "%(05d",
    "%x", "%X", "%#x", "%08x", "%o", "%#o", "%f", "%.2f", "%10.3f", "%-10.1f|", "%+.0f", "%,.2f", "%(.1f", "%010.2f",
    "%#.0f",
    "%e", "%.0e", "%E", "%12.3e", "%g", "%.3g", "%.0g", "%G", "%b", "%B", "%7b|", "%c", "%-3c|", "%%", "%5%", "%-5%|",
    "%n",
    "a%%b", "%1$s %1$s", "%s %<s", "no directive", "%.1b",
)  # fmt: skip
"""Formats of one value."""
REFUSED = (
    "%", "%q", "%d %d", "%2$s", "%<s", "%-d", "%0d", "%-05d", "%+ d", "%++d", "%.2d", "%#d", "%,x", "%,e", "%#g", "%#s",
    "%5n", "%-%", "%D", "%F", "%N", "50% of", "%.2%", "%0s", "%t", "%.2c",
)  # fmt: skip
"""Formats that Java refuses for one INTEGER."""


def test_formats_that_java_refuses_are_refused():
    assert [form for form in REFUSED if not judge(form, [INTEGER])] == []


def test_a_value_of_another_type_is_refused():
    pairs = (("%d", VARCHAR), ("%d", DOUBLE), ("%f", INTEGER), ("%c", VARCHAR), ("%x", DOUBLE), ("%c", BIGINT))
    assert [pair for pair in pairs if not judge(pair[0], [pair[1]])] == []
    assert judge("%d", [None]) == "", "a bare NULL is shown in every conversion"


def test_texts():
    assert formatted("%s has %05d, %,.2f", ["x", 42, 1234.567], [VARCHAR, INTEGER, DOUBLE]) == "x has 00042, 1,234.57"
    assert formatted("%s|%6.2f|%b", [None, -1.005, True], [VARCHAR, DOUBLE, Scalar("BOOLEAN")]) == "null| -1.01|true"
    assert formatted("%2$s %1$s %1$s", ["a", "b"], [VARCHAR, VARCHAR]) == "b a a"
