"""Read and write specs: plain data a store returns and ``spark/`` interprets, so that neither imports the other.

Option values may hold ``${NAME}`` references and file references; they are resolved in the engine only, through the
:class:`Resolver` it passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ds_dagster.catalog.capabilities import Delivery
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted
from ds_dagster.catalog.relation import SchemaFormatName
from ds_dagster.datatypes import DataType

if TYPE_CHECKING:
    import pyarrow

Resolver = Callable[[PropertyValue], str]
Options = Mapping[str, PropertyValue]
TimeAuthority = Literal["broker", "producer"]
RecordPart = Literal["key_bytes", "key_text", "value_bytes", "value_bytes_or_empty"]
WriteMode = Literal["append", "upsert"]
RefreshMode = Literal["incremental", "full", "continuous"]


def _no_options() -> Options:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Envelope:
    """Spark SQL expressions over the raw columns of a source format.

    Attributes:
        key, value: binary (or text castable to binary) or ``CAST(NULL AS BINARY)``.
        timestamp: TIMESTAMP, the record's own.
        partition: text, names one ordered part of the entity.
        order: text that sorts as the record's position inside its partition.
        metadata: STRUCT of ``rowmetadata()``, of the kind's type, computed only where a query reads it; empty: none.
        headers: ARRAY<STRUCT<key STRING, value BINARY>>; empty where records have no headers or no query reads them.
        position: text, the record's place as people and ``ds skip`` write it; empty: ``order`` without leading zeros.
    """

    key: str
    value: str
    timestamp: str
    partition: str
    order: str
    metadata: str = ""
    headers: str = ""
    position: str = ""

    @property
    def shown_position(self) -> str:
        """Expression of a record's position in its partition, for people."""
        return self.position or f"REGEXP_REPLACE({self.order}, '^0+(?=[0-9])', '')"


@dataclass(frozen=True, slots=True)
class RegistrySpec:
    """How to reach a schema registry.

    Attributes:
        name: shown in errors.
        options: ``addresses`` (URLs with commas between them), ``user``, ``password``, ``authorities`` (PEM file),
            ``certificate`` and ``key`` (PEM files of the client), ``key_password``; references unresolved.
    """

    name: str
    options: Options = field(default_factory=_no_options)


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """Key or value of records whose format needs a schema.

    Attributes:
        format: avro, protobuf or json_schema.
        subject: under which a registry keeps its schemas; without a registry the name of the message, for errors.
        id: for reads the newest schema's when the query starts, which gives defaults and names; for writes the
            registered schema's. None where no registry is used, or before it was looked up.
        schema: of that id, or the descriptor, in the form of :mod:`catalog.schemas.formats`; empty before the look-up.
        version: version of that schema under the subject, for reads; 0 before the look-up.
        message: full name of the Protobuf message; empty where each record names its message.
        file: absolute path of the descriptors in the project, for records without a registry; empty with one.
    """

    format: SchemaFormatName
    subject: str
    id: int | None = None
    schema: str = ""
    message: str = ""
    file: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """Parts of an entity's records that need schemas, and the registry for Confluent's wire format, if any."""

    registry: RegistrySpec | None
    value: SchemaPart | None = None
    key: SchemaPart | None = None


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """How Spark reads one entity as a stream.

    Attributes:
        format: Spark source name.
        realtime_format: source name in Spark's real-time mode; empty if ``format`` runs in it, or no source does.
        provider: import path ``module:Class`` of a Python data source to register first; empty for built-in formats.
        options: Spark options, references unresolved.
        envelope: where key, value, timestamp and position are.
        time_authority: ``broker`` (record timestamps set on arrival, monotone: an input read to its end is complete up
            to the last look) or ``producer``.
        empty_is_delete: an empty value means delete (Kinesis); a null value always does.
        text_keys: keys are characters, so a primitive one is its text, not its bytes (Kinesis).
        cluster_options: further options where executors run on other machines than the driver.
        limit_option: option that bounds one batch (records), empty when the format has none.
        task_limit_option: like ``limit_option``, for one task of a batch; without it, a task reads all new records of a
            partition.
        clock_guard: system whose open upstream transactions hold the engine's clock back (``kafka``), or empty.
        entity: shown in errors and progress, ``store.entity``.
        identity: distinguishes the entity from a later one of the same name; empty if unknown.
        rows: the source gives columns instead of records; ``key`` and ``value`` of the envelope are not used then.
        schemas: parts of the records (key, value) that need a schema; None if there is none.
        partitions: how many the entity has now; None if unknown.
    """

    format: str
    envelope: Envelope
    entity: str
    realtime_format: str = ""
    provider: str = ""
    options: Options = field(default_factory=_no_options)
    time_authority: TimeAuthority = "producer"
    empty_is_delete: bool = False
    text_keys: bool = False
    cluster_options: Options = field(default_factory=_no_options)
    limit_option: str = ""
    task_limit_option: str = ""
    clock_guard: str = ""
    identity: str = ""
    rows: RowSource | None = None
    schemas: SchemaSpec | None = None
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table or view sink. ``as_json``: the value travels as JSON text (STRUCT, MAP, ARRAY where the
    store has no such type) and is cast by the store's own statements."""

    name: str
    type: DataType
    native_type: str
    nullable: bool = True
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class RowText:
    """One column of JSON text in place of a row's columns, written like the value of a record.

    Attributes:
        name: of that column.
        beside: columns that are sent as they are, next to the text, and are not in it.
    """

    name: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table or view to load.

    Attributes:
        path: parts of its name in the store (schema, table).
        columns, primary_key: in order.
        mode: append, or upsert by ``primary_key`` with deletes.
        refresh: ``continuous`` for views and streams; of tables as written (``incremental`` by default).
        text: rows are sent to the loader as JSON text; None: as columns.
        retention_millis: of views: age at which a row is deleted unless it is written again; 0: never.
    """

    path: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...] = ()
    mode: WriteMode = "append"
    refresh: RefreshMode = "continuous"
    text: RowText | None = None
    retention_millis: int = 0


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How Spark writes the sink of a query.

    Attributes:
        kind: ``stream``: a Spark streaming format writes records; ``batch``: a loader gets each micro-batch as an Arrow
            table.
        format: Spark sink name (kind stream).
        provider: import path of a Python data source to register, empty for built-in or jar formats.
        options: Spark options (stream) or connection settings (batch), references unresolved.
        record: output columns of a stream sink: (column name, which part of the record).
        loader: import path ``module:function`` of :class:`LoaderFactory` (kind batch).
        streams: its loader is a :class:`ds_dagster.catalog.reading.row_stream.StreamLoader`.
        table: the table or view to load (kind batch); None for kind stream.
        delivery: guarantee, shown by ``ds check``.
        transactional: the format keeps one transaction per batch; the compiler adds the job's identity options.
        interval_millis: least time between two batches of a query that does not end; 0: no wait.
        max_key_characters: longer keys are refused on write; None: no limit.
        entity: shown in errors, ``store.entity``.
        schemas: parts of the records (key, value) that need a schema; None if there is none.
    """

    kind: Literal["stream", "batch"]
    entity: str
    delivery: Delivery
    format: str = ""
    provider: str = ""
    options: Options = field(default_factory=_no_options)
    record: tuple[tuple[str, RecordPart], ...] = ()
    loader: str = ""
    streams: bool = False
    table: TableTarget | None = None
    transactional: bool = False
    max_key_characters: int | None = None
    schemas: SchemaSpec | None = None
    interval_millis: int = 0


@dataclass(frozen=True, slots=True)
class TableRead:
    """How a table is looked up.

    Attributes:
        reader: import path ``module:function`` of :class:`TableReader`.
        options: connection settings, references unresolved; of a view its name and retention.
        path: parts of its name in the store.
        entity: shown in errors, ``store.entity``.
    """

    reader: str
    options: Options
    path: tuple[str, ...]
    entity: str


class TableReader(Protocol):
    """Function that ``TableRead.reader`` names. Runs in Spark's Python workers, and in the process that answers a
    question. Its module also has a function ``count_rows(options, path, wanted)``, which returns the number of rows."""

    def __call__(
        self,
        options: Mapping[str, str],
        path: tuple[str, ...],
        columns: tuple[tuple[str, str], ...],
        wanted: Wanted = EVERYTHING,
    ) -> Iterable[pyarrow.RecordBatch]:
        """Rows of a table as one consistent state.

        Args:
            options: resolved.
            path: parts of the table's name.
            columns: name and type (``DECIMAL(10, 2)``) of the columns to read, in order.
            wanted: which rows.

        Returns:
            Batches with these columns, in types that Arrow can cast to the columns' types.
        """


@dataclass(frozen=True, slots=True)
class SinkIdentity:
    """Identity of a writer: ``job`` (environment + journal uuid + query name) and ``version`` (checkpoint version). A
    ledger row is (job, version, epoch); a transactional id is the job alone."""

    job: str
    version: int

    @property
    def ledger(self) -> str:
        """Ledger key and marker group."""
        return f"{self.job}/v{self.version}"

    def of_member(self, query: str) -> SinkIdentity:
        """Identity for one sink of an application: each sink has its own ledger and transactions."""
        return replace(self, job=f"{self.job}/{query}")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of one batch. ``replayed``: the ledger had the epoch already and nothing was written."""

    rows: int
    replayed: bool = False


class BatchLoader(Protocol):
    """Loads micro-batches into one table or view; data and ledger row in one transaction.

    Rows arrive with the target's columns plus ``__deleted`` (boolean) when the mode is upsert, at most one row per key.
    """

    def prepare(self, tip: CheckpointTip) -> None:
        """Create or verify target and ledger, and compare the ledger with the checkpoint the run starts from.

        Raises:
            UserError: a condition of :func:`ds_dagster.catalog.ledger.decide`.
        """

    def load(self, rows: pyarrow.Table, batch: Tip) -> LoadResult:
        """Apply one batch exactly once. Only the batch that was planned when the run started may be in the ledger.

        Raises:
            UserError: a condition of :func:`ds_dagster.catalog.ledger.within_run`.
        """

    def finish(self) -> int:
        """After the last batch of a finite run: publish (full refresh). Returns the number of rows the run loaded."""

    def close(self) -> None:
        """Release connections; never raises."""


@runtime_checkable
class LedgerReader(Protocol):
    """A loader that reports where its ledger ends."""

    is_restorable: bool
    """Rows and ledger change in one transaction, so a restored backup has exactly the batches in its ledger."""

    def tip(self) -> Tip | None:
        """The newest batch of this job and version, or None; creates nothing but the ledger. Raises as ``prepare``."""

    def renumber(self, tip: Tip) -> None:
        """Note a batch without rows that ends where the newest batch does, with a later number. Raises as ``load``."""

    def adopt(self, tip: Tip) -> None:
        """Note a batch as the newest of a version that has no batch; earlier rows stay. Raises as ``load``."""


@runtime_checkable
class ExpiringLoader(Protocol):
    """A loader whose view may lose rows by their age (``TableTarget.retention_millis``)."""

    target: TableTarget

    def expire(self) -> int:
        """Delete rows that are too old, in a transaction and on a connection of its own, from any thread.

        Returns:
            Number of deleted rows.

        Raises:
            DsError: as ``load``.
        """


class LoaderFactory(Protocol):
    """Factory that ``WriteSpec.loader`` names."""

    def __call__(self, spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> BatchLoader:
        """Open the loader; connects lazily or at once."""


def open_loader(write: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> BatchLoader:
    """The loader of a table or view sink.

    Raises:
        DsError: conditions of its factory.
    """
    module, _, name = write.loader.partition(":")
    factory: LoaderFactory = getattr(import_module(module), name)
    return factory(write, identity, resolve)
