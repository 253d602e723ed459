"""Constants among the arguments of a function: checks of arguments that are written as literals.

They are checked when a call is bound (``plan/expressions/constants.py``), so that no query ends at its first row for a
literal that no row could use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

ConstantKind = Literal["regex", "time_pattern", "json_path", "zone", "charset", "unit", "format", "precision"]
CHARSETS = ("US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")
"""Character sets of texts, in any case."""
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
DATE_PATTERN = "yyyy-MM-dd"
MONTHS: Mapping[str, int] = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})
"""Unit of time that is not of the same length each time → its months."""
PRECISIONS = (0, 3)
NOT_A_PRECISION = "the precision is neither 0 (seconds) nor 3 (milliseconds)"
OWN_MARKS = frozenset("[]{}#")
"""Marks in a pattern of times that Java's DateTimeFormatter leaves out or refuses."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One of them.

    Attributes:
        kind: a regular expression of Java, a pattern of times, a JSON path, a time zone, a character set of
            :data:`CHARSETS`, a unit of time, a format of Java for the arguments behind it, one of :data:`PRECISIONS`.
        at: which argument, from 0.
        group: of a regular expression, where the function gives a group: the one without the next argument.
        replacement: of a regular expression: the argument that names its groups as ``$1``.
        by_spark: of a pattern of times: Spark itself reads it, which refuses letters that Java knows.
        all_elements: of a JSON path: it may hold ``[*]`` once.
        units: of a unit of time, which is always a literal: the words.
    """

    kind: ConstantKind
    at: int
    group: int | None = None
    replacement: int | None = None
    by_spark: bool = False
    all_elements: bool = False
    units: tuple[str, ...] = ()
