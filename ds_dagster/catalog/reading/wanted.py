"""Rows that a reader of a table has to give: conditions the store applies itself, faster than a full read."""

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
        values: the constants as Python values, never NULL; one of them but for ``in``. Times are in UTC, without a
            zone.
    """

    column: str
    type: Scalar
    operator: Operator
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows that are asked for. A reader may give more of them; it never leaves one out.

    Attributes:
        comparisons: all of them hold.
        limit: number of rows that suffice, None for all. A reader keeps to it only where it keeps to every comparison.
    """

    comparisons: tuple[Comparison, ...] = ()
    limit: int | None = None


EVERYTHING = Wanted()
