"""What a store does that takes repaired records back, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

SENT_SUFFIX = "_redriven"
"""After the name of a topic: the topic that notes which of its records were sent again."""


@dataclass(frozen=True, slots=True)
class RepairedRecord:
    """A record that goes back into its entity.

    Attributes:
        id: of the record it replaces, unique in the entity and its log.
        key, value: new bytes.
        timestamp_millis: of the record it replaces.
        partition: it goes to; None where its key decides.
        note: JSON that is kept with the id.
    """

    id: str
    key: bytes | None
    value: bytes | None
    timestamp_millis: int
    partition: int | None
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
