"""What the admin of a store of tables says of records: it has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import error


class WithoutRecords(ABC):
    """The part of ``StoreAdmin`` that stores of rows share. ``store_type``: as CREATE STORE names it."""

    @property
    @abstractmethod
    def store_type(self) -> str:
        """The type of the store, for messages."""

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
        """Always None: it has no lag."""
        return 0
