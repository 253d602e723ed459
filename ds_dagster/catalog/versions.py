"""Protocols of store kinds for versions of one view or changelog side by side, and for renamed tables."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ds_dagster.catalog.io_spec import Resolver, WriteSpec

TablePath = tuple[str, ...]


@runtime_checkable
class VersionsChangelogs(Protocol):
    """A store kind where a version of a changelog that does not serve yet writes its own entity. Readers always read
    the public entity; a version that takes over writes the differences into it."""

    def version_entity(self, entity: str, version: int) -> str:
        """Name of a version's entity.

        Args:
            entity: the public one.
            version: its number.
        """

    def at_entity(self, write: WriteSpec, store: str, entity: str) -> WriteSpec:
        """A write spec for the same records into another entity of the same store."""


@runtime_checkable
class RenamesTables(Protocol):
    """A store kind that can rename a table with its rows."""

    def why_not_renamed(self, old: WriteSpec, new: WriteSpec) -> str:
        """Why the table of ``old`` cannot be renamed to that of ``new``; empty if it can. No I/O."""

    def rename_table(self, old: WriteSpec, new: WriteSpec, resolve: Resolver) -> None:
        """Rename the table of ``old`` to that of ``new``; nobody may be writing it now. Does nothing if it has the name
        already.

        Raises:
            UserError: RENAME_TARGET_TAKEN.
            ExternalError: the store cannot be reached, TARGET_LOCKED; the call may be retried.
        """


@runtime_checkable
class KeepsVersions(Protocol):
    """A store kind whose tables change their public names in one step. Paths are those of ``WriteSpec.table``."""

    def version_path(self, path: TablePath, version: int) -> TablePath:
        """Path of a table version that does not serve. No I/O.

        Args:
            path: of the public table.
            version: its number.
        """

    def count_version(self, write: WriteSpec, resolve: Resolver, version: int) -> int:
        """Number of rows of a version; 0 if it does not exist yet.

        Args:
            write: of the public table.
            resolve: of the store.
            version: its number; 0 for the version that serves.

        Raises:
            ExternalError: the store cannot be read now.
        """

    def serve_version(self, write: WriteSpec, resolve: Resolver, former: int, version: int) -> None:
        """Give a version the public name; the table that has the name becomes version ``former``. Readers see one or
        the other. A version that has the name already keeps it.

        Args:
            write: of the public table.
            resolve: of the store.
            former: number of the version that serves.
            version: number of the version that takes over; nobody may be writing either of them now.

        Raises:
            UserError: VERSION_TABLE_HELD: something refers to the table itself, not to its name.
            ExternalError: the store cannot be reached, TARGET_LOCKED; the call may be retried.
        """

    def drop_version(self, write: WriteSpec, resolve: Resolver, version: int) -> None:
        """Drop a version that does not serve, and its rows in the ledger; does nothing if it is gone.

        Raises:
            DsError: of the store.
        """
