"""What a store does that takes repaired records back, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import DsError

SENT_SUFFIX = "_redriven"
"""After the name of a topic: the topic that notes which of its records were sent again."""


@dataclass(frozen=True, slots=True)
class RepairedRecord:
    """A record that goes back into its entity.

    Attributes:
        id: of the record it replaces, unique in the entity and its log.
        key, value: new bytes.
        timestamp_millis: of the record it replaces; None: the time when it is sent.
        partition: it goes to; None where its key decides, as it always does in Kinesis.
        note: JSON that is kept with the id.
    """

    id: str
    key: bytes | None
    value: bytes | None
    timestamp_millis: int | None
    partition: str | None
    note: str


class Redriver(Protocol):
    """Sends records into one entity and notes their ids in the same transaction. One at a time: a second one of the
    same entity ends the first, whose open transaction is aborted."""

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
        """Ids of all records that were sent so far; makes nothing and ends no sender.

        Raises:
            DsError: of the store.
        """

    def redriver(self, entity: str) -> Redriver:
        """One for an entity that exists.

        Raises:
            DsError: of the store.
        """


class Notes(Protocol):
    """Texts by id, for records of a store that has no transactions. One at a time: a second one of the same name ends
    the first, which can write nothing more."""

    def read(self) -> Mapping[str, str]:
        """Id → the last text.

        Raises:
            DsError: of the store.
        """

    def write(self, notes: Mapping[str, str]) -> None:
        """Write texts by id, all or none.

        Raises:
            DsError: of the store; a later one has taken over.
        """

    def close(self) -> None:
        """Disconnect."""


@runtime_checkable
class KeepsNotes(Protocol):
    """Operations on the entities of a store that can keep notes."""

    def noted(self, name: str) -> Mapping[str, str]:
        """Id → the last text, empty where nothing was noted; makes nothing and ends nobody.

        Raises:
            DsError: of the store.
        """

    def notes(self, name: str, like: str) -> Notes:
        """Notes of that name; kept like an entity of the store.

        Raises:
            DsError: of the store.
        """


@dataclass(frozen=True, slots=True)
class Put:
    """What became of records that were sent without a transaction.

    Attributes:
        written: id → position in the entity.
        failed: why the others are not there; None: all are.
        is_known: False: no answer came, the others may be there or not.
        is_for_now: the store takes them later.
    """

    written: Mapping[str, str]
    failed: DsError | None = None
    is_known: bool = True
    is_for_now: bool = False


@runtime_checkable
class PutsRecords(Protocol):
    """Operations on the entities of a store that takes records without transactions."""

    def portions(self, entity: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
        """Records by request, with the keys that they get.

        Raises:
            UserError: ENTITY_RECORD_INVALID.
        """

    def put(self, entity: str, records: Sequence[RepairedRecord]) -> Put:
        """Send one of :meth:`portions`, once; never raises what the store answers."""

    def kept_seconds(self, entity: str) -> float:
        """How long the entity keeps records.

        Raises:
            DsError: of the store.
        """


@runtime_checkable
class FindsRecords(Protocol):
    """Operations on the entities of a store whose records can be read by their place."""

    def find_records(self, entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        """Records by (partition, position), as they are there now; those that are gone are missing.

        Raises:
            DsError: ENTITY_NOT_FOUND, or of the store.
        """
