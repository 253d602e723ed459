"""How much a source holds, in stores whose records have no numbers: for plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.relation import Relation


@dataclass(frozen=True, slots=True)
class Volume:
    """An estimate. ``records``: None where the store does not count them; ``bytes``: as they are stored."""

    records: int | None
    bytes: int


@runtime_checkable
class TellsVolume(Protocol):
    """Operations on the entities of a store that estimates how much they hold."""

    def volume(self, relation: Relation) -> Volume | None:
        """What a query reads that starts with the first record; None if there is no such entity.

        Raises:
            DsError: of the store.
        """
