"""Protocols of stores that accept repaired records again, each once (redriving)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import DsError

SENT_SUFFIX = "_redriven"
"""Suffix of the topic that notes which records of a topic were sent again."""


@dataclass(frozen=True, slots=True)
class RepairedRecord:
    """A repaired record to send into its entity again.

    Attributes:
        id: of the record it replaces, unique in the entity and its log.
        key, value: new bytes.
        timestamp_millis: of the record it replaces; None: the time when it is sent.
        partition: to send it to; None: its key decides, as always in Kinesis.
        note: JSON that is stored with the id.
    """

    id: str
    key: bytes | None
    value: bytes | None
    timestamp_millis: int | None
    partition: str | None
    note: str


class Redriver(Protocol):
    """Sends records into one entity and notes their ids in the same transaction. Opening a second redriver of an entity
    ends the first and aborts its open transaction."""

    def sent(self) -> frozenset[str]:
        """Ids of all records that were sent, by anybody.

        Raises:
            DsError: of the store.
        """

    def send(self, records: Sequence[RepairedRecord]) -> None:
        """Send records with their notes, all or none.

        Raises:
            DsError: of the store.
        """

    def close(self) -> None:
        """Disconnect."""


@runtime_checkable
class Redrives(Protocol):
    """Operations on the entities of a store with transactions."""

    def redriven(self, entity: str) -> frozenset[str]:
        """Ids of all records that were sent so far; creates nothing and ends no open redriver.

        Raises:
            DsError: of the store.
        """

    def redriver(self, entity: str) -> Redriver:
        """Open a redriver for an existing entity.

        Raises:
            DsError: of the store.
        """


class Notes(Protocol):
    """Texts by id, for records of a store that has no transactions. Opening a second one of the same name ends the
    first, which can then write nothing more."""

    def read(self) -> Mapping[str, str]:
        """Id → the last text.

        Raises:
            DsError: of the store.
        """

    def write(self, notes: Mapping[str, str]) -> None:
        """Write texts by id, all or none.

        Raises:
            DsError: of the store; notes of the same name were opened since.
        """

    def close(self) -> None:
        """Disconnect."""


@runtime_checkable
class KeepsNotes(Protocol):
    """Operations on the entities of a store that can keep notes."""

    def noted(self, name: str) -> Mapping[str, str]:
        """Id → the last text, empty where nothing was noted; creates nothing and ends no open notes.

        Raises:
            DsError: of the store.
        """

    def notes(self, name: str, like: str) -> Notes:
        """Open the notes of a name.

        Args:
            name: of the notes.
            like: entity of the store whose sizes a new entity for the notes copies.

        Raises:
            DsError: of the store.
        """


@dataclass(frozen=True, slots=True)
class Put:
    """Outcome of sending records without a transaction.

    Attributes:
        written: id → position in the entity.
        failed: why the other records were not written; None: all were.
        is_known: False: the store did not answer, so the other records may be written or not.
        is_for_now: the store refuses the other records only for now; it accepts them later.
    """

    written: Mapping[str, str]
    failed: DsError | None = None
    is_known: bool = True
    is_for_now: bool = False


@runtime_checkable
class PutsRecords(Protocol):
    """Operations on the entities of a store that takes records without transactions."""

    def portions(self, entity: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
        """Split records into one sequence per request, with the keys they will have.

        Raises:
            UserError: ENTITY_RECORD_INVALID.
        """

    def put(self, entity: str, records: Sequence[RepairedRecord]) -> Put:
        """Send one sequence of :meth:`portions`, once; faults that the store reports are in the result, not raised."""

    def kept_seconds(self, entity: str) -> float:
        """Retention of the entity, in seconds.

        Raises:
            DsError: of the store.
        """


@runtime_checkable
class FindsRecords(Protocol):
    """Operations on the entities of a store whose records can be read by their place."""

    def find_records(self, entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        """Records by (partition, position), as they are now; records that are gone are left out.

        Raises:
            DsError: ENTITY_NOT_FOUND, or of the store.
        """
