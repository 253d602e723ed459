"""Immutable lookup of stores and relations, with nearest names in its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.compute_pool import ComputePool
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.descriptors import DescriptorSource
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.secret import SecretDefinition
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.user_function import NO_CODE, UserCode
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, did_you_mean


@dataclass(frozen=True, slots=True)
class Catalog:
    """Stores, secrets, schema registries, descriptor sources and compute pools by folded name, relations by qualified
    name, databases and schemas that were created or are defaults."""

    stores: Mapping[str, StoreDefinition] = field(default_factory=lambda: MappingProxyType({}))
    relations: Mapping[QualifiedName, Relation] = field(default_factory=lambda: MappingProxyType({}))
    schemas: frozenset[tuple[str, str]] = frozenset()
    refused_stores: frozenset[str] = frozenset()
    secrets: Mapping[str, SecretDefinition] = field(default_factory=lambda: MappingProxyType({}))
    registries: Mapping[str, RegistryDefinition] = field(default_factory=lambda: MappingProxyType({}))
    descriptors: Mapping[str, DescriptorSource | None] = field(default_factory=lambda: MappingProxyType({}))
    functions: UserCode = NO_CODE
    pools: Mapping[str, ComputePool | None] | None = field(default_factory=lambda: MappingProxyType({}))
    """None in the slice of a job, which does not carry them."""

    @property
    def store_kinds(self) -> Mapping[str, str]:
        """Kinds of the stores, by folded name."""
        return {store.name: store.kind for store in self.stores.values()}

    def store(self, name: str, span: Span | None = None) -> StoreDefinition:
        """Raises: UserError UNKNOWN_STORE with the nearest names, STORE_REFUSED where its own statement was refused."""
        definition = self.stores.get(name.lower())
        if name.lower() in self.refused_stores:
            raise error("STORE_REFUSED", span=span, name=name)
        if definition is None:
            raise error("UNKNOWN_STORE", span=span, name=name, nearest=did_you_mean(name, self.stores))
        return definition

    def pool(self, name: str, span: Span | None = None) -> ComputePool:
        """Raises: UserError COMPUTE_POOL_UNKNOWN with the nearest names, COMPUTE_POOL_REFUSED where its own statement
        was refused."""
        pools = self.pools or {}
        if name not in pools:
            raise error("COMPUTE_POOL_UNKNOWN", span=span, name=name, nearest=did_you_mean(name, pools))
        definition = pools[name]
        if definition is None:
            raise error("COMPUTE_POOL_REFUSED", span=span, name=name)
        return definition

    def relation(self, name: QualifiedName, span: Span | None = None) -> Relation:
        """Raises: UserError UNKNOWN_RELATION with the nearest names."""
        definition = self.relations.get(name)
        if definition is None:
            names = [str(other) for other in self.relations]
            raise error("UNKNOWN_RELATION", span=span, name=str(name), nearest=did_you_mean(str(name), names))
        return definition
