"""Where checkpoints are: one folder per job and version under the state folder.

The journal has the number of the current version. A new version gets a new folder; the old one stays until ``ds gc``.
A folder that the journal does not know is refused. A folder that the journal knows but that is gone is refused too:
sinks remember the batches of that version and would skip new batches with the same numbers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.names import file_name
from ds_dagster.runtime.checkpoint_files import finish_growth
from ds_dagster.runtime.deciding.identity import Identity

_VERSION = re.compile(r"v(\d+)(-replaced-\d+)?")


@dataclass(frozen=True, slots=True)
class OldCheckpoint:
    """A checkpoint folder that no job uses any more: ``size`` in bytes."""

    name: str
    version: int
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoint folders of one journal. ``root`` is ``<state>/checkpoints``."""

    root: Path
    identity: Identity

    def path(self, name: str, version: int) -> Path:
        """Folder of one version of one job."""
        return self.root / self.identity.folder / file_name(name) / f"v{version}"

    def verify(self, name: str, version: int, *, started: bool, progressed: bool) -> Path:
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
        exists = path.is_dir() and any(path.iterdir())
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
            folder = self.root / self.identity.folder / file_name(name)
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                match = _VERSION.fullmatch(path.name)
                if match and (int(match[1]) != version or match[2]):
                    checkpoints.append(OldCheckpoint(name, int(match[1]), path, _size(path)))
        return tuple(checkpoints)

    def delete(self, checkpoint: OldCheckpoint) -> None:
        """Remove one old checkpoint for good."""
        shutil.rmtree(checkpoint.path)

    def delete_all(self, name: str) -> None:
        """Remove every checkpoint of a job for good, where there are any; also while another engine does the same."""
        folder = self.root / self.identity.folder / file_name(name)
        while folder.is_dir():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
