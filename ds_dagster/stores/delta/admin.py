"""Control of a folder or bucket of Delta tables: probe, describe tables, list them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.errors import error
from ds_dagster.stores.delta.connection import CONTROL_LIMITS, LakeAddress
from ds_dagster.stores.probing import probed
from ds_dagster.stores.without_records import WithoutRecords

R = TypeVar("R")
DEPTH = 3
"""Depth of folders in which tables are looked for."""
LOG = "_delta_log"


class DeltaAdmin(WithoutRecords):
    """See ``catalog.store.StoreAdmin``; the loader creates tables."""

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.address = LakeAddress.of(store, settings)

    def __repr__(self) -> str:
        return f"DeltaAdmin({self.address.store}, {self.address.url})"

    def probe(self) -> ProbeResult:
        """Whether the folder or bucket answers and can be listed; the first load creates a missing folder."""
        return probed(lambda: f"{len(self._guarded(lambda: self._folders('')))} folders at {self.address.url}")

    def describe(self, entity: str) -> EntityFacts | None:
        """A table by its folder below the store's, None without a table; its size is the number of rows in its log."""
        place = self.address.place(entity)
        table = self._guarded(lambda: self.address.table(place, CONTROL_LIMITS))
        return None if table is None else self._guarded(lambda: _facts(entity, table))

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Looks for the table, which tests the login; the loader creates it."""
        return self.describe(plan.name) or EntityFacts(plan.name, size=0)

    def entities(self) -> Sequence[EntityFacts]:
        """Tables below the store's folder, by name; their sizes are reported by :meth:`describe`."""
        return self._guarded(lambda: [EntityFacts(name) for name in sorted(self._tables("", DEPTH))])

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return self.address.kind

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.delta.entities import DeltaEntities

        return DeltaEntities(self.address)

    def close(self) -> None:
        """Nothing is open."""

    def _folders(self, below: str) -> Sequence[str]:
        place = self.address.place(below) if below else self.address.root
        if self.address.is_local and Path(place).exists() and not Path(place).is_dir():
            raise error("STORE_FOLDER_INVALID", store=self.address.store, address=place, reason="it is a file")
        return self.address.folders(place, CONTROL_LIMITS)

    def _tables(self, below: str, depth: int) -> Iterator[str]:
        names = self._folders(below)
        if LOG in names and below:
            yield below
            return
        if depth:
            for name in names:
                if not name.startswith(("_", ".")):
                    yield from self._tables(f"{below}/{name}".strip("/"), depth - 1)

    def _guarded(self, step: Callable[[], R]) -> R:
        try:
            return step()
        except self.address.errors() as problem:
            raise self.address.failure(problem, "look at its tables") from None


def _facts(entity: str, table: Any) -> EntityFacts:
    settings = {name: str(value) for name, value in table.metadata().configuration.items()}
    return EntityFacts(entity, settings=MappingProxyType(settings), size=int(table.count()))
