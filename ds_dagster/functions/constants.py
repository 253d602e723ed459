"""Constants among the arguments of a function: checks of arguments that are written as literals.

They are checked when a call is bound (``plan/expressions/constants.py``), so that no query fails at its first row for a
literal that is valid for no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

ConstantKind = Literal["regex", "time_pattern", "json_path", "zone", "charset", "unit", "format", "precision"]
CHARSETS = ("US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")
"""Character sets of texts, in upper case; calls may write them in any case."""
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
DATE_PATTERN = "yyyy-MM-dd"
MONTHS: Mapping[str, int] = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})
"""Unit of time whose length varies → its number of months."""
PRECISIONS = (0, 3)
"""Of an epoch number: 0 for seconds, 3 for milliseconds."""
NOT_A_PRECISION = "the precision is neither 0 (seconds) nor 3 (milliseconds)"
OWN_MARKS = frozenset("[]{}#")
"""Marks in a pattern of times that Java's DateTimeFormatter reserves: it leaves them out or refuses them."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A check of one argument.

    Attributes:
        kind: a regular expression of Java, a pattern of times, a JSON path, a time zone, a character set of
            :data:`CHARSETS`, a unit of time, a format of Java for the arguments after it, one of :data:`PRECISIONS`.
        at: number of the argument, from 0.
        group: for a regular expression of a function that gives a group: the default of the next argument.
        replacement: for a regular expression: number of the argument that names its groups as ``$1``.
        by_spark: for a pattern of times: Spark itself reads it, and refuses letters that Java supports.
        all_elements: for a JSON path: it may hold ``[*]`` once.
        units: for a unit of time, which is always a literal: the words that are allowed.
    """

    kind: ConstantKind
    at: int
    group: int | None = None
    replacement: int | None = None
    by_spark: bool = False
    all_elements: bool = False
    units: tuple[str, ...] = ()
