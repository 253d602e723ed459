"""What a loader offers that replaces the rows of a range of time in a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ds_dagster.catalog.ledger import Tip

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Rows whose ``column`` is at or after ``begin`` and before ``end``; both in UTC, aware."""

    column: str
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Replaced:
    """Rows that were deleted, and rows that were inserted."""

    deleted: int
    inserted: int


@runtime_checkable
class ReplacesRanges(Protocol):
    """A loader of a table of appended rows."""

    def replace_range(self, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
        """Delete the rows of a range and insert others, in one transaction. A kill before it changes nothing.

        Args:
            span: of the table.
            batches: rows with the target's columns, all that are of the range in the target's types; others among them
                are left out. Computed one after the other.
            tip: the newest batch of the job that fills the table: the rows are those of all its records.

        Raises:
            UserError: BACKFILL_OVERTAKEN: the table has a later batch now, or another version of the query fills it.
                TARGET_GONE, TARGET_DIFFERS, TARGET_REFERENCED.
            ExternalError: the store cannot be reached.
        """
