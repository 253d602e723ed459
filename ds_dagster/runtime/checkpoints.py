"""Where checkpoints are: one folder per job and version, under the state folder or in a bucket.

The journal has the number of the current version. A new version gets a new folder; the old one stays until ``ds gc``.
A folder that the journal does not know is refused. A folder that the journal knows but that is gone is refused too:
sinks remember the batches of that version and would skip new batches with the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ds_dagster.catalog.properties.values import resolve_text
from ds_dagster.errors import error
from ds_dagster.names import file_name
from ds_dagster.places.bucket import Bucket, BucketAddress
from ds_dagster.places.bucket_path import BucketPath
from ds_dagster.places.trees import Place, names_in, remove_tree, size_of
from ds_dagster.runtime.checkpoint_files import current_folder, finish_growth
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.runtime.processes.places import Places
from ds_dagster.settings import Settings

_VERSION = re.compile(r"v(\d+)(-replaced-\d+|-[0-9a-f]{8})?")
"""Name of a checkpoint: its version, with a number if a repair replaced it, with letters and digits for later folders
of a version in a bucket."""


def bucket_address(settings: Settings) -> BucketAddress | None:
    """The bucket of checkpoints with its login; None if checkpoints are in the state folder.

    Raises:
        UserError: ENVIRONMENT_REFERENCE_MISSING.
    """
    of = settings.checkpoints
    if not of.in_bucket:
        return None
    variables = engine_environment(settings.root)
    keys = {
        name: resolve_text(getattr(of, name), variables, f"the setting checkpoints.{name}")
        for name in ("access_key_id", "secret_access_key", "session_token")
    }
    return BucketAddress(of.bucket, of.region, of.endpoint_url, **keys)


@dataclass(frozen=True, slots=True)
class OldCheckpoint:
    """A checkpoint folder that no job uses any more: ``size`` in bytes."""

    name: str
    version: int
    path: Place
    size: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoint folders of one journal. ``root``: ``<state>/checkpoints``, or a folder of a bucket."""

    root: Place
    identity: Identity

    @classmethod
    def of(cls, settings: Settings, identity: Identity) -> Checkpoints:
        """The checkpoints of a project.

        Raises:
            UserError: ENVIRONMENT_REFERENCE_MISSING.
        """
        address = bucket_address(settings)
        if address is None:
            return cls(Places.of(settings).checkpoints, identity)
        return cls(BucketPath(Bucket(address), settings.checkpoints.prefix), identity)

    def path(self, name: str, version: int) -> Place:
        """Folder of one version of one job. In a bucket a repair or a restore gives a version another folder: call it
        again after one."""
        return current_folder(self._folder(name) / f"v{version}")

    def verify(self, name: str, version: int, *, started: bool, progressed: bool) -> Place:
        """The folder to start from. An exchange of the folder that was killed is finished first.

        Args:
            name, version: of the job.
            started: whether the journal has an earlier start with this version.
            progressed: whether the journal has a finished batch of this version.

        Raises:
            UserError: CHECKPOINT_UNKNOWN: a folder with files, but no start; CHECKPOINT_MISSING: a finished batch, but
                no folder.
        """
        path = self.path(name, version)
        finish_growth(path)
        exists = bool(names_in(path))
        if exists and not started:
            raise error("CHECKPOINT_UNKNOWN", name=name, path=str(path))
        if progressed and not exists:
            raise error("CHECKPOINT_MISSING", name=name, version=version, path=str(path))
        return path

    def old(self, current: Mapping[str, int]) -> tuple[OldCheckpoint, ...]:
        """Folders of versions other than the current ones, and folders that a repair replaced, for ``ds gc``. Folders
        of jobs that are not in ``current`` (job → version) are left out: this journal did not make them."""
        checkpoints: list[OldCheckpoint] = []
        for name, version in sorted(current.items()):
            folder, used = self._folder(name), self.path(name, version).name
            for other in sorted(names_in(folder)):
                match, path = _VERSION.fullmatch(other), folder / other
                if match and other != used:
                    checkpoints.append(OldCheckpoint(name, int(match[1]), path, size_of(path)))
        return tuple(checkpoints)

    def delete(self, checkpoint: OldCheckpoint) -> None:
        """Remove one old checkpoint for good."""
        remove_tree(checkpoint.path)

    def delete_all(self, name: str) -> None:
        """Remove every checkpoint of a job for good, where there are any; also while another engine does the same."""
        folder = self._folder(name)
        while folder.is_dir():
            with suppress(FileNotFoundError):
                remove_tree(folder)

    def _folder(self, name: str) -> Place:
        return self.root / self.identity.folder / file_name(name)
