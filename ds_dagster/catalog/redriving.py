"""What a store does that takes repaired records back, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.entity import RawRecord

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


@runtime_checkable
class FindsRecords(Protocol):
    """Operations on the entities of a store whose records can be read by their place."""

    def find_records(self, entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        """Records by (partition, position), as they are there now; those that are gone are missing.

        Raises:
            DsError: ENTITY_NOT_FOUND, or of the store.
        """
