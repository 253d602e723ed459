"""Savepoints: copies of a checkpoint as it was after one finished batch, with the definition that made it.

A savepoint is a folder with ``savepoint.json`` and ``checkpoint/``. It is written under another name, forced to disk
and renamed, so it is complete or absent. Its query may run meanwhile, since the files of finished batches do not
change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.durable import force_names
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean, safe_name
from ds_dagster.places.trees import Place, make_folder, read_if_any, size_of, write_whole
from ds_dagster.runtime.checkpoint_files import OFFSETS, ORIGIN, SOURCES, TARGETS, VOID, exchange, new_folder
from ds_dagster.runtime.checkpoint_log import copy_batches, kept_batches
from ds_dagster.runtime.deciding.spec import JobSpec

FORMAT = 1
MANIFEST, CHECKPOINT = "savepoint.json", "checkpoint"
"""Names in the folder of a savepoint."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TRIES = 5
"""Most attempts to copy a checkpoint whose query removes old files meanwhile."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """One savepoint.

    Attributes:
        name: of the savepoint.
        query: name of the query.
        job: identity of the job that made it: environment, journal, and the query (and version) that named it first.
        origin: checkpoint version in which its history began; versions made from savepoints go on with that history.
        version: checkpoint version it was copied from.
        tip: its last batch, with its offsets.
        taken: epoch seconds.
        spec: definition that made it, as ``JobSpec.to_json``.
        folder: where it is.
    """

    name: str
    query: str
    job: str
    origin: int
    version: int
    tip: Tip
    taken: float
    spec: str
    folder: Path

    @property
    def checkpoint(self) -> Path:
        """The copy of the checkpoint."""
        return self.folder / CHECKPOINT

    @property
    def definition(self) -> JobSpec:
        """The definition that made it."""
        return JobSpec.from_json(self.spec)

    @property
    def size(self) -> int:
        """Bytes."""
        return size_of(self.folder)

    @property
    def entry(self) -> str:
        """The entry of its offset log for its last batch."""
        return (self.checkpoint / OFFSETS / str(self.tip.batch)).read_text(encoding="utf-8")

    @property
    def targets(self) -> Mapping[str, str]:
        """See :func:`targets_of`."""
        return targets_of(self.checkpoint)

    @property
    def sources(self) -> Mapping[str, str]:
        """Name of a source → identity of the entity that its job read."""
        return _object(self.checkpoint / SOURCES)


@dataclass(frozen=True, slots=True)
class Savepoints:
    """The savepoints below one folder, by query."""

    root: Path

    def take(self, name: str, place: Place, about: Savepoint, *, has_state: bool) -> Savepoint:
        """Copy a checkpoint up to its last finished batch.

        Args:
            name: of the savepoint; empty: ``batch-N-SECONDS``, by the batch and the time.
            place: of the checkpoint. Its query may run.
            about: the other fields; its ``name``, ``tip``, ``origin`` and ``folder`` are not used.
            has_state: the query keeps state, which the copy must have.

        Raises:
            UserError: SAVEPOINT_REFUSED. ExternalError: SAVEPOINT_NOT_WRITTEN.
        """
        if name and not NAME.fullmatch(name):
            raise _refused(about.query, f"{name!r} is not a valid name: use letters, digits, '_', '-' and '.'")
        folder = self._folder(about.query)
        staged = folder / f".new-{os.getpid()}"
        try:
            make_folder(folder)
            tip = _copied(about.query, place, staged / CHECKPOINT, has_state)
            name = name or f"batch-{tip.batch}-{int(about.taken)}"
            target = folder / name
            if target.exists():
                raise _refused(about.query, f"a savepoint with the name {name} already exists")
            origin = origin_of(staged / CHECKPOINT, about.version)
            manifest = {"name": name, "query": about.query, "job": about.job, "origin": origin}
            manifest |= {"version": about.version, "batch": tip.batch, "digest": tip.offsets, "ends": tip.ends}
            manifest |= {"taken": about.taken, "spec": json.loads(about.spec), "format": FORMAT}
            write_whole(staged / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
            staged.rename(target)
            force_names(folder)
        except OSError as problem:
            raise error("SAVEPOINT_NOT_WRITTEN", name=about.query, detail=str(problem)) from problem
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return self.get(about.query, name)

    def all(self, query: str = "") -> tuple[Savepoint, ...]:
        """All savepoints, or those of one query, sorted by query and time.

        Raises:
            ExternalError: SAVEPOINT_UNREADABLE.
        """
        folders = [self._folder(query)] if query else sorted(self.root.glob("*"))
        manifests = [path for folder in folders for path in folder.glob(f"*/{MANIFEST}") if path.parent.name[0] != "."]
        savepoints = (saved for saved in map(_read, manifests) if not query or saved.query == query)
        return tuple(sorted(savepoints, key=lambda savepoint: (savepoint.query, savepoint.taken)))

    def all_of(self, query: str, job: str) -> tuple[Savepoint, ...]:
        """Savepoints of a query and of the same job under former names, sorted by name of the query and time.

        Raises:
            ExternalError: SAVEPOINT_UNREADABLE.
        """
        return tuple(saved for saved in self.all() if query == saved.query or job == saved.job)

    def get(self, query: str, name: str) -> Savepoint:
        """One savepoint.

        Raises:
            UserError: SAVEPOINT_UNKNOWN. ExternalError: SAVEPOINT_UNREADABLE.
        """
        by_name = {savepoint.name: savepoint for savepoint in self.all(query)}
        if name not in by_name:
            raise error("SAVEPOINT_UNKNOWN", name=query, savepoint=name, nearest=did_you_mean(name, by_name))
        return by_name[name]

    def of_job(self, query: str, job: str, name: str) -> Savepoint:
        """One savepoint of a query, or of the same job under a former name.

        Args:
            query: name of the query today.
            job: identity of the job.
            name: of the savepoint.

        Raises:
            UserError: SAVEPOINT_UNKNOWN. ExternalError: SAVEPOINT_UNREADABLE.
        """
        own = [saved for saved in self.all() if (saved.job, saved.name) == (job, name)]
        return max(own, key=lambda saved: (saved.query == query, saved.taken)) if own else self.get(query, name)

    def delete(self, savepoint: Savepoint) -> None:
        """Remove a savepoint for good. Its folder is renamed first, so it is complete or absent.

        Raises:
            ExternalError: SAVEPOINT_NOT_WRITTEN.
        """
        try:
            gone = savepoint.folder.with_name(f".gone-{savepoint.name}")
            savepoint.folder.rename(gone)
            shutil.rmtree(gone)
        except OSError as problem:
            raise error("SAVEPOINT_NOT_WRITTEN", name=savepoint.query, detail=str(problem)) from problem

    def _folder(self, query: str) -> Path:
        return self.root / safe_name(query)


def put_savepoint(savepoint: Savepoint, place: Place, following: str = "", *, is_fork: bool = False) -> Tip | None:
    """Make a checkpoint from a savepoint; the former content of its place is moved to ``…-replaced-N``.

    Args:
        savepoint: source of the copy.
        place: of the checkpoint; no query writes it.
        following: offset log entry of the batch after the savepoint, planned and not finished; empty: none.
        is_fork: the checkpoint is for another job, which has written nothing yet.

    Returns:
        The planned batch; None without ``following``.

    Raises:
        OSError: a file cannot be read or written.
    """
    folder = new_folder(place)
    make_folder(folder.parent)
    copy_batches(savepoint.checkpoint, folder, savepoint.tip.batch, savepoint.tip.batch)
    write_whole(folder / ORIGIN, json.dumps({"origin": savepoint.origin, "savepoint": savepoint.name}).encode())
    if is_fork:
        (folder / TARGETS).unlink(missing_ok=True)
    planned = None
    if following:
        write_whole(folder / OFFSETS / str(savepoint.tip.batch + 1), following.encode())
        planned = tip_of(folder, savepoint.tip.batch + 1)
    exchange(place, folder)
    return planned


def tip_of(place: Place, batch: int) -> Tip | None:
    """A batch of a checkpoint with its offsets, as ledgers store it; None if its entry cannot be read."""
    tip = kept_batches(place).batches.get(batch)
    if tip is None:
        return None
    lines = (place / OFFSETS / str(batch)).read_text(encoding="utf-8").splitlines()
    version, _, *sources = lines
    texts = (line if version == "v1" else line.partition(":")[2] for line in sources)
    values = ["null" if text == VOID else text for text in texts]
    names = [json.dumps(line.partition(":")[0]) for line in sources]
    by_name = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
    offsets = f"[{','.join(values)}]" if version == "v1" else f"{{{by_name}}}"
    return Tip(batch, tip.offsets, ends_text(offsets, json.dumps(_object(place / SOURCES))))


def targets_of(place: Place) -> Mapping[str, str]:
    """``store.entity`` → identity of the entity that the job of a checkpoint wrote; empty without a checkpoint."""
    return {entity: identity for entity, identity in _object(place / TARGETS).items() if "." in entity and identity}


def origin_of(place: Place, version: int) -> int:
    """The checkpoint version in which the history of a checkpoint began."""
    return int(_object(place / ORIGIN).get("origin", version))


def _copied(query: str, place: Place, copy: Path, has_state: bool) -> Tip:
    """Make a complete copy. If the query removes old files during the copy, the copy is repeated.

    Raises:
        UserError: SAVEPOINT_REFUSED.
    """
    reason = "its checkpoint changes faster than it can be copied"
    for _ in range(TRIES):
        shutil.rmtree(copy.parent, ignore_errors=True)
        finished = kept_batches(place).finished
        if finished is None:
            raise _refused(query, "it has finished no batch yet")
        try:
            copy_batches(place, copy, finished, finished)
        except FileNotFoundError:
            continue
        log, tip = kept_batches(copy), tip_of(copy, finished)
        if log.finished == finished and tip is not None and (finished in log.states or not has_state):
            return tip
        reason = f"its checkpoint does not have the offsets and the state of batch {finished}"
    raise _refused(query, reason)


def _refused(query: str, reason: str) -> Exception:
    return error("SAVEPOINT_REFUSED", name=query, reason=reason)


def _read(path: Path) -> Savepoint:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise error("SAVEPOINT_UNREADABLE", path=str(path), detail=f"its format is {values['format']}")
        tip = Tip(int(values["batch"]), values["digest"], values["ends"])
        return Savepoint(
            name=values["name"],
            query=values["query"],
            job=values["job"],
            origin=int(values["origin"]),
            version=int(values["version"]),
            tip=tip,
            taken=float(values["taken"]),
            spec=json.dumps(values["spec"]),
            folder=path.parent,
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise error("SAVEPOINT_UNREADABLE", path=str(path), detail=f"{type(problem).__name__}: {problem}") from problem


def _object(path: Place) -> Mapping[str, Any]:
    return dict(json.loads(read_if_any(path) or "{}"))
