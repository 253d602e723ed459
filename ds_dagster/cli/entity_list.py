"""Rows of ``ds ls entities``: the facts that DESCRIBE ENTITY and observations of assets show too."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from ds_dagster.catalog.entity_operations import EntityOperations, EntityPath
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.observation import fingerprint_of
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.runtime.connecting import resolver

Row = dict[str, Any]


def listed(project: LoadedProject, store: StoreDefinition, path: EntityPath) -> list[Row]:
    """Entities of a store with the facts of one call; with a path, the names directly below it."""
    with closing(store_admin(project, store.name, resolver(project.settings, store.name))) as admin:
        if path:
            with closing(admin.operations()) as operations:
                return [{"name": node.path[-1], "kind": node.kind} for node in operations.children(path)]
        entities = list(admin.entities())
    return [{"name": e.name, **dict(e.counts), "record time": e.record_time, "size": e.size} for e in entities]


def detailed(project: LoadedProject, store: StoreDefinition, path: EntityPath) -> list[Row]:
    """Entities directly below a path with all facts: a few calls per entity. Levels (namespaces, …) have no figures."""
    with (
        closing(store_admin(project, store.name, resolver(project.settings, store.name))) as admin,
        closing(admin.operations()) as operations,
    ):
        places = [(node.path, node.kind, node.is_level) for node in operations.children(path)]
        return [_row(project, store, operations, *place) for place in places]


def _row(
    project: LoadedProject,
    store: StoreDefinition,
    operations: EntityOperations,
    path: EntityPath,
    kind: str,
    is_level: bool,
) -> Row:
    entity = None if is_level else operations.describe(path)
    on_store = [relation for relation in project.catalog.relations.values() if relation.store == store.name]
    relations = [relation for relation in on_store if operations.path_of(relation) == path]
    return {
        "name": path[-1],
        "kind": kind,
        "counts": dict(entity.facts.counts) if entity else None,
        "size": entity.facts.size if entity else None,
        "bytes": entity.bytes if entity else None,
        "newest": dict(entity.newest) if entity else None,
        "relations": [str(relation.name) for relation in relations],
        "schema_fingerprint": fingerprint_of(relations[0], entity) if relations and entity else None,
    }
