"""Base for the admin of a store of tables, which has no records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import error


class WithoutRecords(ABC):
    """The methods of ``StoreAdmin`` about records, for stores of tables."""

    @property
    @abstractmethod
    def store_type(self) -> str:
        """The type of the store as CREATE STORE names it, for messages."""

    def records(
        self,
        entity: str,
        *,
        from_beginning: bool,  # noqa: ARG002, the protocol's signature
        limit: int | None,  # noqa: ARG002
        stopped: Callable[[], bool],  # noqa: ARG002
        since: int | None = None,  # noqa: ARG002
    ) -> Iterator[RawRecord]:
        """Refused: a table has rows, not records.

        Raises:
            UserError: STORE_NOT_A_SOURCE.
        """
        raise error("STORE_NOT_A_SOURCE", relation=entity, type=self.store_type)

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:  # noqa: ARG002, the protocol's signature
        """Always 0: a table has no lag."""
        return 0
