"""The physical thing in a store, as found there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True)
class EntityFacts:
    """A store's description of one entity.

    Attributes:
        name: as the store spells it.
        counts: sizes by WITH property name (``topic.partitions`` → 3).
        settings: configuration as the store reports it (topic configs without prefix), only what differs from its
            defaults.
        record_time: broker or producer set timestamps (``message.timestamp.type``), None for tables.
        size: records or rows if cheap to know.
        identity: distinguishes the entity from a later one of the same name; empty where the store has no identities.
    """

    name: str
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    record_time: Literal["broker", "producer"] | None = None
    size: int | None = None
    identity: str = ""


@dataclass(frozen=True, slots=True)
class EntityPlan:
    """Requirements on an entity before a query starts.

    Attributes:
        name: as the store spells it.
        counts: sizes by WITH property name. Empty and no ``like``: the entity must exist, or the store's default where
            it has one.
        settings: configuration for a new entity, names as the store spells them.
        used_by: relation, for messages.
        stated: names in ``counts`` that are written in the SQL: an existing entity must agree with these counts;
            inferred counts are for a new entity only.
        like: (store, entity) of the left-most source on the same kind of store: counts and settings that are not
            written are copied from it when the entity has to be created (:meth:`completed`). None: no such source.
    """

    name: str
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    used_by: str = ""
    stated: frozenset[str] = frozenset()
    like: tuple[str, str] | None = None

    def completed(self, model: EntityFacts) -> EntityPlan:
        """The plan with everything unwritten copied from the facts of the ``like`` entity."""
        return replace(
            self,
            counts=MappingProxyType({**model.counts, **self.counts}),
            settings=MappingProxyType({**model.settings, **self.settings}),
            like=None,
        )


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record as it is in a store, for ``ds print`` and for checks of topics."""

    partition: str
    position: str
    timestamp_millis: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a connection test: answer, time, and the fix."""

    ok: bool
    message: str
    milliseconds: int = 0
    hint: str = ""
