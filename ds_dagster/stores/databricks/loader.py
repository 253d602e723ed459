"""Loads batches into a table of a workspace: ``stores/delta/loader.py`` writes its files directly into the bucket, and
one statement of the SQL warehouse registers its name. Batches do not use the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.errors import error
from ds_dagster.stores.databricks.connection import WorkspaceAddress
from ds_dagster.stores.databricks.warehouse import WarehouseLoader
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.table_sink import opened

if TYPE_CHECKING:
    import pyarrow


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> DatabricksLoader:
    """The loader of a table; connects at :meth:`DatabricksLoader.prepare`."""
    target, settings = opened(spec, resolve)
    store = settings["store"]
    workspace = WorkspaceAddress.of(store, {**settings, "url": settings["workspace_url"]})
    location = settings["location"]
    url = location if "://" in location else f"s3://{location}"  # a reference may hold only the bucket's name
    files = LakeAddress.of(store, {**settings, "url": url}, "DATABRICKS")
    shared = settings["shared"] == "true"
    return DatabricksLoader(workspace, DeltaLoader(files, files.root, target, identity, shared=shared))


def open_warehouse_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> WarehouseLoader:
    """The loader of a table that the warehouse fills; connects at :meth:`WarehouseLoader.prepare`."""
    target, settings = opened(spec, resolve)
    workspace = WorkspaceAddress.of(settings["store"], {**settings, "url": settings["workspace_url"]})
    return WarehouseLoader(workspace, target, identity, shared=settings["shared"] == "true")


class DatabricksLoader:
    """See ``catalog.io_spec.BatchLoader``."""

    def __init__(self, workspace: WorkspaceAddress, files: DeltaLoader) -> None:
        self.workspace = workspace
        self.files = files

    def prepare(self, tip: CheckpointTip) -> None:
        """Create or verify the table and its name.

        Raises:
            UserError: TARGET_DIFFERS if the name belongs to other files, DATABRICKS_LOCATION_REFUSED, and the errors of
                ``WorkspaceAddress.rows`` and ``DeltaLoader.prepare``.
        """
        is_registered = self._is_registered()
        self.files.prepare(tip)
        if not is_registered and self.files.exists():
            self._register()

    def load(self, rows: pyarrow.Table, batch: Tip) -> LoadResult:
        """Apply one batch exactly once; see ``DeltaLoader.load``."""
        return self.files.load(rows, batch)

    def finish(self) -> int:
        """Publish a full refresh and register its name if needed. Returns the number of rows of the run."""
        rows = self.files.finish()
        if self.files.target.refresh == "full" and not self._is_registered():
            self._register()
        return rows

    def tip(self) -> Tip | None:
        """See ``DeltaLoader.tip``."""
        return self.files.tip()

    @property
    def is_restorable(self) -> bool:
        """See ``DeltaLoader``."""
        return self.files.is_restorable

    def renumber(self, tip: Tip) -> None:
        """See ``DeltaLoader.renumber``."""
        self.files.renumber(tip)

    def adopt(self, tip: Tip) -> None:
        """See ``DeltaLoader.adopt``."""
        self.files.adopt(tip)

    def close(self) -> None:
        """Close the loader of the files; nothing is open between batches."""
        self.files.close()

    def _is_registered(self) -> bool:
        """Whether the name is registered for our files; raises TARGET_DIFFERS if it is for others."""
        location = self.workspace.location(self.files.target.path)
        if location is None:
            return False
        if _plain(location) != _plain(self.files.place):
            difference = f"its files are at {location}, not at {self.files.place}"
            raise error("TARGET_DIFFERS", table=self.files.table, difference=difference)
        return True

    def _register(self) -> None:
        self.workspace.register(
            self.files.target.path,
            self.files.place,
        )


def _plain(location: str) -> str:
    return location.rstrip("/").replace("s3a://", "s3://", 1)
