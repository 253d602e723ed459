"""Rows inside messages: parsed column by column over all rows at once, and gathered into Arrow string arrays.

A tuple has the number of its columns, and for each column a kind: ``n`` NULL, ``u`` unchanged and stored separately
(TOAST), ``t`` followed by a length and that many bytes of text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ds_dagster.errors import error

Bytes = npt.NDArray[np.uint8]
Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
TEXT, NULL, UNCHANGED = (ord(letter) for letter in "tnu")


@dataclass(frozen=True, slots=True)
class Tuples:
    """Rows as texts.

    Attributes:
        present: whether a message has the row.
        values: one string array per column; null for NULL, unchanged and absent values.
        unchanged: for each column, where the server left out an unchanged value; None if nowhere.
    """

    present: Mask
    values: tuple[pa.Array, ...]
    unchanged: tuple[Mask | None, ...]

    @classmethod
    def absent(cls, rows: int, columns: int) -> Tuples:
        """Absent rows."""
        return cls(np.zeros(rows, bool), tuple(pa.nulls(rows, pa.string()) for _ in range(columns)), (None,) * columns)

    def picked(self, which: Index) -> Tuples:
        """Some of the rows."""
        places = pa.array(which)
        unchanged = tuple(None if mask is None else mask[which] for mask in self.unchanged)
        return Tuples(self.present[which], tuple(values.take(places) for values in self.values), unchanged)


def whole_numbers(buffer: Bytes, at: Index, width: int) -> npt.NDArray[np.int64]:
    """Big-endian numbers of ``width`` bytes at many offsets."""
    numbers = np.zeros(len(at), np.int64)
    for step in range(width):
        numbers = (numbers << 8) | buffer[at + step]
    return numbers


def read_tuples(buffer: Bytes, at: Index, present: Mask, columns: int) -> tuple[Tuples, Index]:
    """The rows that begin at the offsets ``at`` where ``present``, and the offset at which each ends.

    Raises:
        InternalError: CDC_MESSAGE_UNREADABLE.
    """
    everywhere = bool(present.all())
    if not present.any():
        return Tuples.absent(len(at), columns), at
    chosen = at if everywhere else at[present]
    counts = whole_numbers(buffer, chosen, 2)
    if (counts != columns).any():
        raise error("CDC_MESSAGE_UNREADABLE", reason=f"a row of {int(counts.max())} columns, not {columns}")
    place = chosen + 2
    values, unchanged = [], []
    for _ in range(columns):
        kinds = buffer[place]
        has_text = kinds == TEXT
        lengths = np.where(has_text, whole_numbers(buffer, np.minimum(place + 1, len(buffer) - 4), 4), 0)
        starts = place + 5
        place = place + np.where(has_text, 5 + lengths, 1)
        left_out = kinds == UNCHANGED
        if not (has_text | left_out | (kinds == NULL)).all():
            raise error("CDC_MESSAGE_UNREADABLE", reason="a value that is neither text nor NULL")
        if not everywhere:
            starts, lengths, has_text, left_out = (
                _spread(part, present) for part in (starts, lengths, has_text, left_out)
            )
        values.append(gather(buffer, starts, lengths, has_text))
        unchanged.append(left_out if left_out.any() else None)
    ends = place if everywhere else np.where(present, _spread(place, present), at)
    return Tuples(present, tuple(values), tuple(unchanged)), ends


def _spread(part: npt.NDArray[Any], present: Mask) -> npt.NDArray[Any]:
    """The values of the present rows at their places among all rows, zero elsewhere."""
    spread = np.zeros(len(present), part.dtype)
    spread[present] = part
    return spread


def gather(buffer: Bytes, starts: Index, lengths: Index, valid: Mask) -> pa.Array:
    """The texts at many offsets as one string array; ``lengths`` are 0 where not ``valid``."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    wide = total > np.iinfo(np.int32).max
    places = np.arange(total, dtype=np.int64 if wide else np.int32 if len(buffer) < 2**31 else np.int64)
    shift = (starts - offsets[:-1]).astype(places.dtype)
    places += np.repeat(shift, lengths)
    held = pa.py_buffer(buffer[places])
    offset_buffer = pa.py_buffer(offsets if wide else offsets.astype(np.int32))
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_string() if wide else pa.string(), len(starts), [validity, offset_buffer, held]
    )
