"""Operations on the entities of a store: list, describe, create, change, drop, insert a record, sample records. One
implementation per store kind, in its folder of ``stores/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType

EntityPath = tuple[str, ...]
"""Parts of a path from the outside in: ``("db", "schema", "table")``, ``("topic",)``. Empty: the store itself."""


@dataclass(frozen=True, slots=True)
class EntityNode:
    """One line of LIST ENTITIES.

    Attributes:
        path: full, from the store.
        kind: topic, stream, database, schema, catalog, folder, table, view.
        is_level: it holds further nodes (``LIST ENTITIES IN path``) and no rows of its own.
    """

    path: EntityPath
    kind: str
    is_level: bool = False


@dataclass(frozen=True, slots=True)
class EntityColumn:
    """A column as the store knows it.

    Attributes:
        name: as the store spells it.
        type: SQL type; None where no SQL type holds it.
        native: the store's own type.
        nullable: may be NULL.
        key: part of the primary key.
    """

    name: str
    type: DataType | None
    native: str
    nullable: bool = True
    key: bool = False


@dataclass(frozen=True, slots=True)
class EntityDescription:
    """Everything that is cheap to know of one entity.

    Attributes:
        path, kind: as in :class:`EntityNode`.
        facts: counts, settings, size in records or rows.
        columns: empty where the store knows none (topics, Kinesis streams).
        bytes: size in bytes, None where the store does not report it.
        newest: part (partition, ``version``) → newest position in it.
    """

    path: EntityPath
    kind: str
    facts: EntityFacts
    columns: tuple[EntityColumn, ...] = ()
    bytes: int | None = None
    newest: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to insert.

    Attributes:
        value: JSON as it was written; None deletes the key.
        key: text of the key, or None.
    """

    value: str | None
    key: str | None = None


@runtime_checkable
class EmptiesEntities(Protocol):
    """Operations of a store with ``capabilities.empties_entities``."""

    def empty(self, path: EntityPath) -> None:
        """Delete all records; the entity, its settings and its positions stay.

        Raises:
            DsError: ENTITY_GONE, ENTITY_REFUSED and the conditions of the store's connection.
        """


class EntityOperations(Protocol):
    """Entity statements of one store. Calls are time-boxed and fail with the same conditions as ``StoreAdmin``; an
    operation the kind lacks raises UnsupportedError ENTITY_STATEMENT_REFUSED, an invalid path UserError
    ENTITY_PATH_INVALID."""

    follows: bool
    """True: new records can be followed (topics, streams). False: the entity has rows, which are shown once."""

    def path_of(self, relation: Relation) -> EntityPath:
        """Path of a relation's entity."""

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Names directly below a path, sorted.

        Raises:
            UserError: ENTITY_NOT_FOUND, ENTITY_PATH_INVALID.
        """

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Facts and columns of an entity, None when it does not exist."""

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create an entity.

        Args:
            path: of the new entity.
            plan: counts and settings that were written; its name is not read.

        Raises:
            UserError: ENTITY_EXISTS, ENTITY_NAME_INVALID, ENTITY_REFUSED, ENTITY_MISSING (a count is needed).
        """

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Change the counts and settings of an entity to those in the plan.

        Raises:
            UserError: ENTITY_NOT_FOUND, ENTITY_NOT_CHANGED.
        """

    def drop(self, path: EntityPath) -> None:
        """Remove an entity with everything in it; a level only when it is empty.

        Raises:
            UserError: ENTITY_NOT_FOUND.
        """

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Insert one record; returns its position, empty where the store does not report one.

        Raises:
            UserError: ENTITY_NOT_FOUND, ENTITY_RECORD_INVALID.
        """

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Up to ``limit`` records, the newest ones where the store can find them. Rows come as records whose value is
        one JSON object.

        Raises:
            UserError: ENTITY_NOT_FOUND.
        """

    def close(self) -> None:
        """Close connections; never raises."""
