"""Entity statements of a store of files: folders, rows in the files below them."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from types import MappingProxyType

from ds_dagster.catalog.entity import EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.reading.past import Past, PastRequest
from ds_dagster.catalog.reading.volume import Volume
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.files.layout import SUFFIXES, is_hidden
from ds_dagster.stores.entity_common import (
    json_object,
    jsonable,
    not_found,
    path_invalid,
    record_invalid,
    refused,
    shown_path,
)
from ds_dagster.stores.s3.admin import S3Admin, format_of
from ds_dagster.stores.s3.past import files_to_read

KIND = "S3"
SHAPE = '"folder"."folder", one part per folder below the store\'s, none beginning with . or _'


class FilesEntities:
    """See ``catalog.entity_operations.EntityOperations``. A path is a folder below the store's, one part per folder (or
    one part with slashes)."""

    follows = False

    def __init__(self, admin: S3Admin) -> None:
        self._admin = admin
        self._files = admin.store
        self._name = admin.address.store

    def path_of(self, relation: Relation) -> EntityPath:
        """The folder's parts."""
        return tuple(relation.entity.split("/"))

    def volume(self, relation: Relation) -> Volume | None:
        """Bytes of the files below a relation's folder; rows are not counted without reading them."""
        folder = self.describe(self.path_of(relation))
        return None if folder is None else Volume(None, folder.bytes or 0)

    def past(self, request: PastRequest) -> Past:
        """See ``catalog.reading.past.ReadsPast``."""
        return files_to_read(request, list(self._files.listed(self._admin.address.place(request.entity))))

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Folders; a folder that has files, or folders of columns (``region=EU``), is an entity, others are levels."""
        parts = self._parts(path)
        if parts and not self._files.is_folder(self._place(parts)):
            raise not_found(self._name, path, self._files.folders(self._place(parts[:-1])))
        nodes = []
        for name in self._files.folders(self._place(parts)):
            below = (*parts, name)
            inside = self._files.folders(self._place(below))
            is_level = not any("=" in folder for folder in inside) and not self._files.has_files(self._place(below))
            nodes.append(EntityNode(below, "folder", is_level=is_level and bool(inside)))
        return nodes

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Number of files and bytes, and when the newest file was written (epoch ms); None without a folder."""
        parts = self._parts(path, needed=True)
        if not self._files.is_folder(self._place(parts)):
            return None
        facts = self._admin.ensured("/".join(parts))
        newest = {"modified": facts.settings["newest"]} if "newest" in facts.settings else {}
        size = int(facts.settings.get("bytes", 0))
        return EntityDescription(parts, "folder", facts, bytes=size, newest=MappingProxyType(newest))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create an empty folder."""
        parts = self._parts(path, needed=True)
        self._check_plan(plan, "CREATE ENTITY")
        if self._files.is_folder(self._place(parts)):
            raise error("ENTITY_EXISTS", store=self._name, entity=shown_path(path))
        self._admin.store.check_root()
        self._files.make_folder(self._place(parts))

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused: a folder has no properties."""
        reason, fix = "a folder has no properties", "give the relation over it other properties"
        raise refused(KIND, self._name, "UPDATE ENTITY", reason, fix)

    def drop(self, path: EntityPath) -> None:
        """Delete the folder and every file below it."""
        parts = self._existing(path)
        self._files.delete_folder(self._place(parts))

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Write a file with one row, as JSON; returns its name."""
        parts = self._existing(path)
        if record.value is None or record.key is not None:
            raise record_invalid(path, "files hold whole rows: no key, no delete")
        row = json_object(path, record.value)
        formats = {format_of(file.path) for file in self._files.listed(self._place(parts))}
        if formats - {"json"}:
            raise record_invalid(path, "its files are not JSON lines")
        name = f"insert-{time.time_ns()}{SUFFIXES['json']}"
        line = json.dumps(row, default=jsonable, ensure_ascii=False, separators=(",", ":"))
        self._files.write(self._place((*parts, name)), f"{line}\n".encode())
        return name

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Up to ``limit`` rows of the newest files."""
        parts = self._existing(path)
        place = self._place(parts)
        records: list[RawRecord] = []
        for file in sorted(self._files.listed(place), reverse=True):
            records += [record for record, _ in zip(self._admin.rows(place, file), range(limit), strict=False)]
            if len(records) >= limit:
                break
        return records[:limit]

    def close(self) -> None:
        """Nothing is open."""

    def _existing(self, path: EntityPath) -> tuple[str, ...]:
        parts = self._parts(path, needed=True)
        if not self._files.is_folder(self._place(parts)):
            raise not_found(self._name, path, self._files.folders(self._place(parts[:-1])))
        return parts

    def _parts(self, path: EntityPath, *, needed: bool = False) -> tuple[str, ...]:
        parts = tuple(piece for part in path for piece in part.split("/") if piece)
        if (needed and not parts) or any(is_hidden(part) for part in parts):
            raise path_invalid(self._name, path, SHAPE)
        return parts

    def _place(self, parts: Sequence[str]) -> str:
        return self._admin.address.place(*parts) if parts else self._admin.address.root

    def _check_plan(self, plan: EntityPlan, statement: str) -> None:
        written = next(iter((*plan.counts, *plan.settings)), None)
        if written is not None:
            raise refused(KIND, self._name, statement, f"a folder has no {written}", "leave it out")
