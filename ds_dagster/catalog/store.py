"""A declared store, and the protocol of a store kind (one folder per kind in ``stores/``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.io_spec import ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import DataLoss, Offsets
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError
from ds_dagster.sql.statements import Origin


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """CREATE STORE after conversion: folded name, kind (``KAFKA``), properties (updates, config_file and overlay merged
    in), the schema registry it names, the statements that update it."""

    name: str
    kind: str
    span: Span
    origin: Origin
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))
    overlaid: bool = False
    registry: RegistryDefinition | None = None
    updates: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything a FROM clause decides about reading (relation default, overridden by WITH after the source).

    Attributes:
        starting_position: earliest (our default), latest, timestamp or offsets.
        starting_timestamp: epoch milliseconds, with position ``timestamp``; None otherwise.
        data_loss: records that are gone before they were read ``fail`` the query (default), or are counted (``skip``).
        has_metadata: the query reads the store's metadata of a record (``rowmetadata()``).
        max_records_per_batch: bound of one batch, or None.
        slot: name of the replication slot to read through, for stores with slots; empty: the job's own.
        starting_offsets: with position ``offsets``; empty otherwise.
        idle_timeout_millis, lateness_millis: event time, see the plan's scan node.
    """

    starting_position: str = "earliest"
    max_records_per_batch: int | None = None
    starting_timestamp: int | None = None
    data_loss: DataLoss = "fail"
    has_metadata: bool = False
    slot: str = ""
    starting_offsets: Offsets = ()


class StoreAdmin(Protocol):
    """A connection for control: probe, look at, create, list, print. Every call is time-boxed; failures are conditions
    STORE_UNREACHABLE (external), STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED (user)."""

    def probe(self) -> ProbeResult:
        """Whether the store answers and accepts the login."""

    def describe(self, entity: str) -> EntityFacts | None:
        """Facts of one entity, None when it does not exist."""

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Make sure that an entity exists with these counts: create it if absent, refuse if its counts differ.

        Raises:
            UserError: ENTITY_MISSING (absent and counts unknown), ENTITY_COUNT_DIFFERS.
        """

    def entities(self) -> Sequence[EntityFacts]:
        """All entities that the login may see, sorted by name."""

    def records(
        self,
        entity: str,
        *,
        from_beginning: bool,
        limit: int | None,
        stopped: Callable[[], bool],
        since: int | None = None,
    ) -> Iterator[RawRecord]:
        """Records for printing; without a limit, until ``stopped`` returns True.

        ``since``: only records written at or after this moment (epoch ms); a store that cannot begin at a moment gives
        earlier records, too.
        """

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Records between these read positions and the end (lag)."""

    def operations(self) -> EntityOperations:
        """Entity statements over this connection; its life ends with the admin's."""

    def close(self) -> None:
        """Release the connection; never raises."""


@runtime_checkable
class MarkerReader(Protocol):
    """An admin of a store whose transactional sink notes each batch of a job, in the transaction of its records."""

    def marker(self, group: str, entity: str) -> Tip | None:
        """The newest batch that a job wrote into an entity, or None.

        Args:
            group: :attr:`SinkIdentity.ledger` of the job.
            entity: of its sink.

        Raises:
            DsError: the store cannot be asked.
        """

    def note_marker(self, group: str, entity: str, tip: Tip) -> None:
        """Note a batch as the newest of a checkpoint version that has written nothing. May be repeated.

        Args:
            group, entity: as for :meth:`marker`; no job may be writing as ``group`` now.
            tip: the batch, with its ``ends``.

        Raises:
            DsError: the store cannot be asked.
        """


class StoreKind(Protocol):
    """One kind of store: facts, specs, DDL, probe. Each has a folder in ``stores/``, with the same order of parts."""

    name: str
    aliases: tuple[str, ...]
    capabilities: Capabilities
    store_properties: tuple[PropertySpec, ...]
    relation_properties: tuple[PropertySpec, ...]

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Diagnostics over several properties: missing combinations, contradictions."""

    def native_type(self, type_: DataType) -> str | None:
        """The store's type for a table column, None when it has none (then ``as_json`` or a refusal)."""

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """How Spark reads the relation's entity. ``facts`` None: offline (explain, tests)."""

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """How Spark writes into the relation's entity."""

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """The relation's requirements on its entity."""

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """Where the data is, without credentials, references unresolved (``kafka://…/topic``)."""

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect for control."""

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """Arguments of the vendor's own Python client, secrets resolved; empty where there is no such client."""


def probe_through(connection: AbstractContextManager[StoreAdmin]) -> ProbeResult:
    """The result of a store's probe; what prevents the connection itself, such as a secret that is not set, is one too.

    Args:
        connection: opens and closes the connection to the store.
    """
    try:
        with connection as admin:
            return admin.probe()
    except DsError as problem:
        return ProbeResult(False, problem.message, hint=problem.hint)
