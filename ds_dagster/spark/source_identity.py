"""Which of the entities that had a name a checkpoint belongs to. A topic that was deleted and created again carries on
with small numbers under the old name; positions of the first mean nothing in the second, and Spark does not notice
when the second has grown longer than the first was.

What was read stands beside Spark's own files in a local checkpoint; in others nothing is kept and nothing is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ds_dagster.catalog.io_spec import ReadSpec
from ds_dagster.errors import error

FILE = "ds-sources.json"


def local_folder(checkpoint: str) -> Path | None:
    """The folder of a checkpoint on this machine, None for one elsewhere."""
    url = urlsplit(checkpoint)
    return Path(url.path) if url.scheme in ("", "file") else None


def check_identities(checkpoint: str, reads: Mapping[str, ReadSpec]) -> None:
    """Compare the sources with those the checkpoint was begun with, and remember new ones.

    Args:
        checkpoint: its location.
        reads: read spec of every source, by its name.

    Raises:
        UserError: INPUT_RECREATED.
    """
    folder = local_folder(checkpoint)
    now = {name: spec.identity for name, spec in reads.items() if spec.identity}
    if folder is None or not now:
        return
    before = _remembered(folder / FILE)
    for name, identity in now.items():
        if before.get(name, identity) != identity:
            raise error("INPUT_RECREATED", entity=reads[name].entity)
    if now.items() - before.items():
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".{FILE}.new"
        staged.write_text(json.dumps({**before, **now}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        staged.replace(folder / FILE)


def _remembered(path: Path) -> Mapping[str, str]:
    """Nothing for a checkpoint of an earlier version of the package."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise error("CHECKPOINT_UNREADABLE", detail=f"{path}: {problem}") from problem
    return {str(name): str(identity) for name, identity in found.items()}
