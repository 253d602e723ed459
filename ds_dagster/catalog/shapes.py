"""Protocol of loaders that compare their table with the rows they write, without changing it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ComparesShape(Protocol):
    """A loader of a table that others can change."""

    def shape_now(self) -> str | None:
        """How the table differs, column by column; empty if it does not, None if the table is gone.

        Raises:
            ExternalError: the store cannot be reached.
        """
