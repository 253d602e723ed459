"""Kinds of the dialect that are not supported yet. CREATE STORE refuses their type by name, so their other methods are
never called."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error

REASONS: tuple[tuple[str, str], ...] = (
    ("CLICKHOUSE", "keep views in the embedded store or in a POSTGRESQL store"),
    ("ICEBERG_GLUE", "there is no Iceberg runtime for this Spark; load into a DELTA store"),
    ("ICEBERG_REST", "there is no Iceberg runtime for this Spark; load into a DELTA store"),
    ("ORACLE", "read its changes into a Kafka topic first"),
)


class LaterKind:
    """A kind that is not implemented; every method refuses."""

    aliases: tuple[str, ...] = ()
    store_properties: tuple[PropertySpec, ...] = ()
    relation_properties: tuple[PropertySpec, ...] = ()

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.capabilities = Capabilities(not_yet=reason)

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Refused."""
        return (self._refused().diagnostic(),)

    def native_type(self, type_: DataType) -> str | None:
        """None: it holds nothing."""
        return None

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Refused."""
        raise self._refused()

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Refused."""
        raise self._refused()

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Refused."""
        raise self._refused()

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """Refused."""
        raise self._refused()

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Refused."""
        raise self._refused()

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, str]:
        """Refused."""
        raise self._refused()

    def _refused(self) -> DsError:
        return error("STORE_TYPE_NOT_YET", name=self.name, reason=self.capabilities.not_yet)
