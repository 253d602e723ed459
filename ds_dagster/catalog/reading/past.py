"""Records that a query has read, to be read again for a backfill. The kind of their store decides which of them are
read, and with which options of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error

PACE_SECONDS = 5.0
"""With a rate, at most the records of this many seconds are read at once."""


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request for records.

    Attributes:
        query, span: name of the query that has read them and its place in the SQL, for messages.
        entity: as its store spells it.
        end: offset of the source, as in Spark's log, up to which the query has read.
        identity: of the entity that the query has read; empty if unknown.
        began: offset of the source at which the query began; None if unknown. Sources of Spark's own note it.
        batches: number of a batch that the query's checkpoint keeps → offset of the source after it.
        since, until: epoch milliseconds; records written before ``since``, or at or after ``until``, need not be read.
            None: no bound.
        is_own: leave out records from before the query began.
    """

    query: str
    entity: str
    end: Mapping[str, Any]
    span: Span | None = None
    identity: str = ""
    began: Mapping[str, Any] | None = None
    batches: Mapping[int, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    since: int | None = None
    until: int | None = None
    is_own: bool = False

    def refused(self, reason: str) -> DsError:
        """BACKFILL_REFUSED."""
        return error("BACKFILL_REFUSED", span=self.span, name=self.query, reason=reason)

    def unknown_beginning(self) -> DsError:
        """BACKFILL_REFUSED for ``is_own`` where it is not known where the query began."""
        return self.refused("its checkpoint, which says where it began, is not on this machine or does not say it")

    def gone(self, oldest: int | None) -> DsError:
        """BACKFILL_RECORDS_GONE; ``oldest``: time of the oldest record that is left, epoch milliseconds; None if
        unknown."""
        first = "an unknown time"
        if oldest is not None:
            first = datetime.fromtimestamp(oldest / 1000, timezone.utc).isoformat()
        return error("BACKFILL_RECORDS_GONE", name=self.query, first=first)


@dataclass(frozen=True, slots=True)
class Portion:
    """Records that are read at once.

    Attributes:
        options: of Spark's batch reader for the source, beside those of its read spec.
        records: their number, including markers of transactions; None if it is unknown before they are read. Then the
            reader itself keeps to the rate.
    """

    options: Mapping[str, str]
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """What is read again. ``records`` in topics; ``files`` and their ``bytes`` in stores of files; else None."""

    records: int | None = None
    files: int | None = None
    bytes: int | None = None


class Past(Protocol):
    """The records of one request. Its text says how many there are."""

    @property
    def amount(self) -> Amount:
        """What is read."""

    @property
    def before(self) -> int | None:
        """Number of those records (or files) that are from before the query began, which it has never read; None if
        unknown."""

    @property
    def is_stamped(self) -> bool:
        """Whether the store sets the times of records, so that they are in order."""

    def whole(self) -> Portion | None:
        """All of it at once; None if there are no records."""

    def portions(self, rate: int | None) -> Iterator[Portion]:
        """All of it, piece by piece. ``rate``: most records per second; None: no bound."""


@runtime_checkable
class ReadsPast(Protocol):
    """Operations on the entities of a store without a ``capabilities.no_past``."""

    def past(self, request: PastRequest) -> Past:
        """Which records are read; looks at the store and reads no records.

        Raises:
            UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE. DsError: of the store.
        """
