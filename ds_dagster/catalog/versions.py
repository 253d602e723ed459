"""What a store offers that keeps versions of a view beside each other."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ds_dagster.catalog.io_spec import Resolver, WriteSpec

TablePath = tuple[str, ...]


@runtime_checkable
class VersionsChangelogs(Protocol):
    """A store kind where a version of a changelog that does not serve writes an entity of its own. The public entity
    stays that of all readers: a version that takes over writes into it what differs."""

    def version_entity(self, entity: str, version: int) -> str:
        """Name of a version's entity.

        Args:
            entity: the public one.
            version: its number.
        """

    def at_entity(self, write: WriteSpec, store: str, entity: str) -> WriteSpec:
        """The same records, in another entity of the same store."""


@runtime_checkable
class RenamesTables(Protocol):
    """A store kind whose tables get another name with everything that is in them."""

    def why_not_renamed(self, old: WriteSpec, new: WriteSpec) -> str:
        """Why the table of ``old`` cannot become that of ``new``; empty where it can. No I/O."""

    def rename_table(self, old: WriteSpec, new: WriteSpec, resolve: Resolver) -> None:
        """Give the table of ``old`` the name in ``new``; nobody writes it now. One that has it already keeps it.

        Raises:
            UserError: RENAME_TARGET_TAKEN.
            ExternalError: the store cannot be reached, TARGET_LOCKED; it may be tried again.
        """


@runtime_checkable
class KeepsVersions(Protocol):
    """A store kind whose tables change their public names in one step. Paths are those of ``WriteSpec.table``."""

    def version_path(self, path: TablePath, version: int) -> TablePath:
        """Where a version of a table is that does not serve. No I/O.

        Args:
            path: of the public table.
            version: its number.
        """

    def count_version(self, write: WriteSpec, resolve: Resolver, version: int) -> int:
        """Rows of a version; 0 where it is not there yet.

        Args:
            write: of the public table.
            resolve: of the store.
            version: its number, 0 for the one that serves.

        Raises:
            ExternalError: the store cannot be read now.
        """

    def serve_version(self, write: WriteSpec, resolve: Resolver, former: int, version: int) -> None:
        """Give a version the public name; the table that has it becomes version ``former``. Readers see one or the
        other. A version that has the name already keeps it.

        Args:
            write: of the public table.
            resolve: of the store.
            former: number of the version that serves.
            version: number of the one that takes over; nobody writes either of them now.

        Raises:
            UserError: VERSION_TABLE_HELD: something refers to the table itself, not to its name.
            ExternalError: the store cannot be reached, TARGET_LOCKED; it may be tried again.
        """

    def drop_version(self, write: WriteSpec, resolve: Resolver, version: int) -> None:
        """Drop a version that does not serve, with what its ledger says; does nothing where it is gone.

        Raises:
            DsError: of the store.
        """
