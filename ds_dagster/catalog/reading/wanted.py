"""Rows that a reader of a table has to return: conditions the store applies itself, faster than a full read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ds_dagster.datatypes import Scalar

Operator = Literal["=", "<", "<=", ">", ">=", "in"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against constants.

    Attributes:
        column: its name.
        type: its type: a whole number, VARCHAR (``=`` and ``in`` only, since stores order texts by their own rules),
            DECIMAL, DATE, TIMESTAMP or TIMESTAMP_LTZ.
        operator: see :data:`Operator`.
        values: the constants as Python values, never NULL; exactly one except for ``in``. Times are in UTC, without a
            zone.
    """

    column: str
    type: Scalar
    operator: Operator
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows to read. A reader may return other rows as well, but never leaves one of these out.

    Attributes:
        comparisons: conditions that all have to hold; empty: every row.
        limit: number of rows that suffice, None for all. A reader applies it only if it applies every comparison.
    """

    comparisons: tuple[Comparison, ...] = ()
    limit: int | None = None


EVERYTHING = Wanted()
