"""Observation of the entity of a relation that others fill: shape, size, newest positions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.entity_operations import EntityDescription, EntityOperations
from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError, error
from ds_dagster.project.load import LoadedProject, store_admin

FINGERPRINT_DIGITS = 16
VERSION = "1"
"""Version of the fingerprint's algorithm; the prefix of a fingerprint."""


@dataclass(frozen=True, slots=True)
class EntityObservation:
    """One look at one entity.

    Attributes:
        store, entity: where; ``entity`` is the path with dots.
        fingerprint: hash of the shape: columns of the declaration and, where the store knows them, of the entity.
            Neither size nor position is in it, so it is stable while only data comes.
        size: records or rows, None where the store does not tell.
        bytes: None where the store does not tell.
        counts: partitions, replicas, shards by WITH property name.
        newest: part (partition, ``version``) → newest position.
        settings: configuration that differs from the store's defaults.
    """

    store: str
    entity: str
    fingerprint: str
    size: int | None = None
    bytes: int | None = None
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    newest: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def observe_relation(relation: Relation, operations: EntityOperations) -> EntityObservation:
    """Look at a relation's entity.

    Raises:
        DsError: ENTITY_NOT_FOUND, or conditions of the store.
    """
    path = operations.path_of(relation)
    described = operations.describe(path)
    entity = ".".join(path)
    if described is None:
        raise error("ENTITY_NOT_FOUND", entity=entity, store=relation.store, nearest="(not looked for)")
    return EntityObservation(
        relation.store,
        entity,
        fingerprint_of(relation, described),
        described.facts.size,
        described.bytes,
        described.facts.counts,
        described.newest,
        described.facts.settings,
    )


def fingerprint_of(relation: Relation, entity: EntityDescription) -> str:
    """Hash of the shape: ``1:`` and 16 hexadecimal digits."""
    shape = {
        "declared": [[column.name, str(column.type), column.nullable] for column in relation.columns],
        "formats": [relation.value_format, relation.key.format, str(relation.key.type or "")],
        "primary_key": list(relation.primary_key),
        "found": [[column.name, column.native, column.nullable] for column in entity.columns],
    }
    text = json.dumps(shape, ensure_ascii=False, sort_keys=True)
    return f"{VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]}"


def observe_relations(
    project: LoadedProject, relations: Sequence[Relation], resolver: Mapping[str, Resolver]
) -> Generator[tuple[Relation, EntityObservation | DsError], None, None]:
    """Look at several relations with one connection per store. Once a store cannot be reached, its error is the result
    for its remaining relations, too.

    Args:
        project: loaded.
        relations: in any order.
        resolver: store → resolves its property values.
    """
    by_store: dict[str, list[Relation]] = {}
    for relation in relations:
        by_store.setdefault(relation.store, []).append(relation)
    for store, inside in by_store.items():
        yield from _of_store(project, store, inside, resolver[store])


def _of_store(
    project: LoadedProject, store: str, relations: Sequence[Relation], resolve: Resolver
) -> Iterator[tuple[Relation, EntityObservation | DsError]]:
    try:
        admin = store_admin(project, store, resolve)
    except DsError as problem:
        yield from ((relation, problem) for relation in relations)
        return
    with closing(admin), closing(admin.operations()) as operations:
        gone: DsError | None = None
        for relation in relations:
            if gone is not None:
                yield relation, gone
                continue
            try:
                yield relation, observe_relation(relation, operations)
            except DsError as problem:
                gone = problem if problem.fault.domain == "external" else None
                yield relation, problem
