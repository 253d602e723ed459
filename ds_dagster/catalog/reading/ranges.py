"""Protocol of loaders that replace the rows of a time range in a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ds_dagster.catalog.ledger import Tip

if TYPE_CHECKING:
    import pyarrow


NO_END = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Rows whose ``column`` is at or after ``begin`` and before ``end``; both in UTC, aware. ``NO_END``: all later
    rows."""

    column: str
    begin: datetime
    end: datetime

    def __str__(self) -> str:
        text = f"{self.column} from {self.begin.isoformat()}"
        return f"{text} on" if self.end == NO_END else f"{text} to {self.end.isoformat()}"


@dataclass(frozen=True, slots=True)
class Replaced:
    """Numbers of rows that were deleted and inserted."""

    deleted: int
    inserted: int


@runtime_checkable
class ReplacesRanges(Protocol):
    """A loader of a table of appended rows."""

    def replace_range(self, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
        """Delete the rows of a range and insert others, in one transaction. A kill before its end changes nothing.

        Args:
            span: the range to replace.
            batches: rows with the target's columns, including all rows that are in the range by the target's types;
                other rows are ignored. Computed one after the other.
            tip: the newest batch of the job that fills the table; the rows are computed from all records up to it.

        Raises:
            UserError: BACKFILL_OVERTAKEN: the table has a later batch now, or another version of the query fills it.
                TARGET_GONE, TARGET_DIFFERS, TARGET_REFERENCED.
            ExternalError: the store cannot be reached.
        """
