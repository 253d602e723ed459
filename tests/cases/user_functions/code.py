"""Functions that the cases of this folder call."""

from __future__ import annotations

from decimal import Decimal

import pyarrow
import pyarrow.compute


def slug(text: str | None, joint: str = "-") -> str | None:
    """Words with a joint between them; None of None."""
    return None if text is None else joint.join(text.lower().split())


def doubled(numbers: pyarrow.Array) -> pyarrow.Array:
    """Every number twice as large."""
    return pyarrow.compute.multiply(numbers, 2)


def share(part: Decimal | None, whole: Decimal | None) -> float:
    """Part of a whole; fails where the whole is nothing."""
    return -1.0 if part is None or whole is None else float(part / whole)


def wrong(number: int | None) -> str:
    """A text, whatever it says it gives."""
    return f"no number: {number}"
