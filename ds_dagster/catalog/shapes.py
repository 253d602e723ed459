"""What a loader offers that compares its table with the rows it writes, and changes nothing."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ComparesShape(Protocol):
    """A loader of a table that others can change."""

    def shape_now(self) -> str | None:
        """How the table differs, column by column; empty where it does not, None where it is gone.

        Raises:
            ExternalError: the store cannot be reached.
        """
