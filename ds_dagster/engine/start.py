"""From a start order to a prepared Spark query: compile the slice, create missing entities, resolve references."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from pyspark.sql import SparkSession

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.entity_operations import EmptiesEntities
from ds_dagster.catalog.io_spec import Options, ReadSpec, Resolver, TableRead, WriteSpec
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.reading.extent import FindsOffsets, TellsExtents, check_offsets
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.catalog.reading.tables import table_read
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import log_name
from ds_dagster.catalog.store import ReadOptions, StoreDefinition, StoreKind
from ds_dagster.catalog.versions import KeepsVersions, VersionsChangelogs
from ds_dagster.engine.lag import WatchedSource
from ds_dagster.engine.schemas import known_schemas, with_schemas
from ds_dagster.engine.shapes import WatchedShape, watched_subjects, watched_tables
from ds_dagster.errors import DsError, error
from ds_dagster.places.trees import Place
from ds_dagster.plan.nodes.aggregate import is_by_pane
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject, secret_reader
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.checkpoints import bucket_address
from ds_dagster.runtime.deciding.beside import is_refined, is_written_in_turn
from ds_dagster.runtime.deciding.changes import emptied_by, recompiled
from ds_dagster.runtime.host import HostContext, StartOrder
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.settings import load_overlay
from ds_dagster.spark.cluster import check_executors
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.batch_writers import sink_options
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip, keeps_each_window
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.row_logs import log_identity
from ds_dagster.spark.queries.sources import resolved
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.secret_values import SecretBook
from ds_dagster.version import __version__

SNAPSHOTS = "snapshots"
"""Folder below the state folder for snapshots, which sources copy before they read changes."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A start order with its definition, compiled by the running version of the package."""

    order: StartOrder
    project: LoadedProject
    query: BoundQuery
    environment: Mapping[str, str]
    redactor: Redactor
    secrets: SecretBook

    def store(self, relation: Relation) -> tuple[StoreDefinition, StoreKind, Resolver]:
        """A relation's store, its kind, and a resolver for its references."""
        store = self.project.catalog.store(relation.store)
        return store, KINDS[store.kind], self.resolver(f"store {store.name}")

    def resolver(self, used_by: str) -> Resolver:
        """A function that returns values of references. It passes every secret to the redactor first."""

        def value_of(value: PropertyValue) -> str:
            text = resolve(value, self.environment, used_by, self.read_secret)
            for part in (value, *value.parts):
                if part.secret:
                    secret_text = text if part is value else resolve(part, self.environment, used_by, self.read_secret)
                    self.redactor.remember(secret_text)
            return text

        return value_of

    def read_secret(self, name: str, used_by: str) -> str:
        """The value of a declared secret; the redactor remembers it."""
        text = self.secrets(name, used_by)
        self.redactor.remember(text)
        return text

    @property
    def places(self) -> str:
        """The entities that the job reads and writes, with their stores: for failures that name only a table."""
        read = dict.fromkeys(f"{relation.entity} of store {relation.store}" for relation in self.query.inputs)
        written = (f"{sink.entity} of store {sink.store}" for sink in self.query.sinks)
        return f"reads {', '.join(read)}; writes {', '.join(written)}"

    def rotated(self) -> tuple[str, ...]:
        """Names of secrets whose values have changed since this job read them; empty if they cannot be read now."""
        try:
            return self.secrets.changed(engine_environment(self.project.settings.root))
        except DsError:
            return ()


def compiled(order: StartOrder, context: HostContext) -> Compiled:
    """Compile the order's slice; ``.env`` and the overlay of local servers are read again.

    Raises:
        UserError: SLICE_INVALID, CHECKPOINT_OTHER_STATE (the checkpoint's state does not fit this version of the
            package).
    """
    settings = replace(context.settings, overlay=load_overlay(context.settings))
    project, query = recompiled(order.spec, settings)
    if order.progressed and not query.keeps_state_of(order.spec.state_signature):
        version = order.spec.package_version
        raise error("CHECKPOINT_OTHER_STATE", span=query.sink.span, name=order.name, version=version)
    if query.fingerprint != order.spec.fingerprint:
        _LOG.info(
            "%s: requested by %s, compiled by %s; fingerprints differ",
            order.name,
            order.spec.package_version,
            __version__,
        )
    environment = engine_environment(context.settings.root)
    return Compiled(order, project, query, environment, context.redactor, secret_reader(project, environment))


@dataclass(frozen=True, slots=True)
class StoreSpecs:
    """How Spark reads and writes the entities of a job. The entities exist.

    Attributes:
        reads: by the name of the source.
        writes: by the name of the part.
        watched: sources whose lag can be measured outside the query, by name.
        logs: row logs and quarantines of the query, by name.
        tables: tables that are read as they are now, by the name of the source.
        shapes: schemas and tables of sources, which can change while the query runs; empty for finite runs.
    """

    reads: Mapping[str, ReadSpec]
    writes: Mapping[str, WriteSpec]
    watched: Mapping[str, WatchedSource] = field(default_factory=dict, repr=False)
    logs: Mapping[str, WriteSpec] = field(default_factory=dict, repr=False)
    tables: Mapping[str, TableRead] = field(default_factory=dict, repr=False)
    shapes: tuple[WatchedShape, ...] = field(default=(), repr=False)


def store_specs(job: Compiled) -> StoreSpecs:
    """Create missing sources and check that each exists as declared. Needs no Spark, so it runs while Spark starts.

    Raises:
        DsError: a store fails or refuses, or a reference cannot be resolved.
    """
    scans = job.query.scans
    with ThreadPoolExecutor(len(scans), "ds-sources") as pool:  # each waits for its server
        reads = pool.map(partial(_read_spec, job), scans)
        by_name = {scan.source_name: read for scan, read in zip(scans, reads, strict=True)}
    sources = {scan.source_name: _watched(job, scan, by_name[scan.source_name]) for scan in scans}
    watched = {name: source for name, source in sources.items() if source is not None}
    writes = {part.name: _write_spec(job, part) for part in job.query.parts}
    logs = {log_name(log): _log_spec(job, log) for log in job.query.logs}
    tables = {scan.source_name: _table_read(job, scan) for scan in job.query.tables}
    shapes = chain.from_iterable(watched_shapes(job, scan, by_name[scan.source_name]) for scan in scans)
    return StoreSpecs(by_name, writes, watched, logs, tables, () if job.order.finite else tuple(shapes))


def _write_spec(job: Compiled, part: Part) -> WriteSpec:
    store, kind, _ = job.store(part.sink)
    write = at_version(kind, kind.write_spec(store, part.sink, part.refresh), job.order.place)
    write = at_entity(job, part.sink, write, job.order.place)
    return write if write.schemas is None else with_schemas(write, part.sink, job.resolver)


def at_version(kind: StoreKind, write: WriteSpec, version: int) -> WriteSpec:
    """The write spec of a version: a version that does not serve writes to its own table; 0 is the serving version."""
    if not version or write.table is None:
        return write
    assert isinstance(kind, KeepsVersions)
    return replace(write, table=replace(write.table, path=kind.version_path(write.table.path, version)))


def entity_of(job: Compiled, sink: Relation, version: int) -> str:
    """The entity that a version writes; 0 is the serving version. Versions of changelogs with updates (refined results)
    have their own entities."""
    _, kind, _ = job.store(sink)
    if not version or not is_refined(job.query) or not isinstance(kind, VersionsChangelogs):
        return sink.entity
    return kind.version_entity(sink.entity, version)


def at_entity(job: Compiled, sink: Relation, write: WriteSpec, version: int) -> WriteSpec:
    """The write spec of a version for the entity it writes; 0 is the serving version."""
    store, kind, _ = job.store(sink)
    entity = entity_of(job, sink, version)
    if entity == sink.entity:
        return write
    assert isinstance(kind, VersionsChangelogs)
    return kind.at_entity(write, store.name, entity)


def prepare_query(spark: SparkSession, job: Compiled, inputs: StoreSpecs, checkpoint: str) -> PreparedQuery:
    """Build the query as its checkpoint needs it, and create missing sinks in parallel. Sources must exist: a sink may
    copy a source's sizes.

    Raises:
        DsError: from stores, loaders, references, the compiler, or the check of a cluster's hosts.
    """
    settings = job.project.settings
    check_executors(spark, settings, bucket_address(settings), runs_python=_runs_python(job, inputs))
    with ThreadPoolExecutor(1, "ds-sink") as pool:
        sinks = pool.submit(_ensure_sinks, job)
        query = prepare(
            spark,
            job.query,
            reads=inputs.reads,
            tables=inputs.tables,
            writes=inputs.writes,
            identity=job.order.identity,
            resolve=resolver_of_all(job),
            job_name=job.order.name,
            logs=inputs.logs,
            skips=job.order.skips,
            is_muted=job.order.place > 0 and is_written_in_turn(job.query),
            panes=not (any(map(is_by_pane, job.query.plan.walk())) and keeps_each_window(spark, checkpoint)),
        )
        targets = sinks.result()
    return replace(query, targets=targets)


def _runs_python(job: Compiled, inputs: StoreSpecs) -> bool:
    """Whether executors need Python for the job: for user-defined functions or for sources written in Python."""
    functions = chain.from_iterable(job.project.catalog.functions.functions.values())
    return any(read.provider for read in inputs.reads.values()) or any(
        function.language == "python" for function in functions
    )


def resolver_of_all(job: Compiled) -> Resolver:
    """One resolver for a query that touches several stores."""
    stores = dict.fromkeys(job.order.spec.stores)
    return job.resolver("store " + " or ".join(stores) if stores else job.order.name)


def fence(spark: SparkSession, job: Compiled, checkpoint: Place) -> None:
    """Abort transactions that a dead job left open in its sinks and logs. On a cluster, a batch that is decided and not
    committed everywhere is finished first."""
    own = job.order.identity
    for part in job.query.parts:
        store, kind, resolver = job.store(part.sink)
        write = kind.write_spec(store, part.sink, part.refresh)
        if write.transactional:
            write = at_entity(job, part.sink, write, job.order.place)
            options = sink_options(write, job.query.writer_of(part, own), resolver)
            operators(spark).fence_transaction({**options, "checkpoint": str(checkpoint)})
    for log in job.query.logs:
        store, kind, resolver = job.store(log)
        options = resolved(kind.write_spec(store, log, "continuous").options, resolver)
        operators(spark).fence_transaction({**options, **log_identity(log_name(log), own)})


def _log_spec(job: Compiled, log: Relation) -> WriteSpec:
    """How a log is written; creates its topic if needed."""
    store, kind, _ = job.store(log)
    ensured(job, log)
    return kind.write_spec(store, log, "continuous")


def _table_read(job: Compiled, scan: StaticScan) -> TableRead:
    store, kind, _ = job.store(scan.relation)
    return table_read(kind, store, scan.relation)


def _read_spec(job: Compiled, scan: Scan) -> ReadSpec:
    store, kind, _ = job.store(scan.relation)
    _check_written(job, scan.relation)
    facts = ensured(job, scan.relation)
    reading = scan.reading
    if "from_now" in job.order.begins:
        reading = replace(reading, starting_position="latest", starting_timestamp=None, starting_offsets=())
    _check_offsets(job, scan.relation, reading)
    spec = kind.read_spec(store, scan.relation, reading, facts)
    if spec.rows is not None:
        spec = replace(spec, options={**spec.options, **_own(job, scan, spec.rows)})
    return spec if spec.schemas is None else replace(spec, schemas=known_schemas(spec.schemas, job.resolver))


def _check_offsets(job: Compiled, relation: Relation, reading: ReadOptions) -> None:
    """Check that the starting offsets of a first start are in the entity. Raises as
    :func:`ds_dagster.catalog.reading.extent.check_offsets`."""
    if not reading.starting_offsets or job.order.progressed:
        return
    store, kind, resolver = job.store(relation)
    with closing(kind.admin(store, resolver)) as admin:
        operations = admin.operations()
        assert isinstance(operations, TellsExtents | FindsOffsets)
        shown = f"{store.name}.{relation.entity}"
        check_offsets(shown, operations, relation.entity, reading.starting_offsets, reading.data_loss)


def _watched(job: Compiled, scan: Scan, spec: ReadSpec) -> WatchedSource | None:
    """A source to watch, or None if the source reports its own lag. Sources of one store with the same settings share
    a connection."""
    store, kind, resolver = job.store(scan.relation)
    if not kind.capabilities.looks_at_lag:
        return None
    settings = kind.client_settings(store, resolver)
    return WatchedSource(
        entity=scan.relation.entity,
        shown=spec.entity,
        identity=spec.identity,
        connection=(store.name, tuple(sorted((name, str(value)) for name, value in settings.items()))),
        connect=lambda: kind.admin(store, resolver),
    )


def watched_shapes(job: Compiled, scan: Scan, spec: ReadSpec) -> Iterable[WatchedShape]:
    """Watched shapes of a source: the schemas of its records, or the tables whose changes it reads."""
    store, kind, resolver = job.store(scan.relation)
    if spec.rows is not None:
        return watched_tables(scan.source_name, scan.relation, kind.admin(store, resolver).operations)
    registry = spec.schemas.registry if spec.schemas is not None else None
    resolve = resolver if registry is None else job.resolver(f"schema registry {registry.name}")
    return watched_subjects(scan.source_name, scan.relation, spec.schemas, resolve)


def _own(job: Compiled, scan: Scan, rows: RowSource) -> Options:
    """Options of a source that keeps state for its reader: the reader's name, and a folder for snapshots."""
    owner = f"{job.order.identity.job}/{scan.source_name}"
    folder = job.project.settings.state / SNAPSHOTS
    return {rows.owner_option: PropertyValue(owner), rows.state_option: PropertyValue(str(folder))}


def _ensure_sinks(job: Compiled) -> Mapping[str, str]:
    """Create missing streams of the sinks. Returns ``store.entity`` → identity, which distinguishes an entity from a
    later one of the same name."""
    identities: dict[str, str] = {}
    for sink in job.query.sinks:
        store, kind, _ = job.store(sink)
        if kind.capabilities.writes_streams and sink.kind in ("stream", "changelog"):
            written = replace(sink, entity=entity_of(job, sink, job.order.place))
            identities[f"{store.name}.{written.entity}"] = ensured(job, written).identity
    return {entity: identity for entity, identity in identities.items() if identity}


def empty(spark: SparkSession, job: Compiled, checkpoint: str) -> None:
    """Delete the records of former checkpoint versions, if the reset requested it. Until the first batch is planned,
    no record is from this version, so the deletion can be repeated after a kill.

    Raises:
        DsError: the store fails.
    """
    tip = checkpoint_tip(spark, checkpoint) if "empty" in job.order.begins else None
    if tip is None or tip.planned is not None or tip.committed is not None:
        return
    for target in emptied_by(job.query):
        store, kind, resolver = job.store(target)
        with closing(kind.admin(store, resolver)) as admin:
            operations = admin.operations()
            assert isinstance(operations, EmptiesEntities)
            operations.empty(operations.path_of(target))
        _LOG.info("%s: the records of %s.%s are deleted, as requested", job.order.name, store.name, target.entity)


def _check_written(job: Compiled, relation: Relation) -> None:
    """Check that an entity written by another job exists. Only its writer creates it, with its sizes and settings.

    Raises:
        ExternalError: WAITS_FOR_WRITER.
    """
    writer = job.order.spec.writers_of(relation)
    if writer and _described(job, relation.store, relation.entity) is None:
        raise error("WAITS_FOR_WRITER", writer=writer, entity=relation.entity, store=relation.store)


def ensured(job: Compiled, relation: Relation) -> EntityFacts:
    """Create a relation's entity if it is missing. Sizes that are not declared are copied from the entity that the
    plan names as its model; that may be in another store of the same kind."""
    store, kind, resolver = job.store(relation)
    plan = kind.entity_plan(relation)
    if plan.like is not None and plan.like[0] != store.name:
        model = _described(job, *plan.like)
        plan = plan if model is None else plan.completed(model)
    with closing(kind.admin(store, resolver)) as admin:
        return admin.ensure(plan)


def _described(job: Compiled, name: str, entity: str) -> EntityFacts | None:
    store = job.project.catalog.store(name)
    with closing(KINDS[store.kind].admin(store, job.resolver(f"store {name}"))) as admin:
        return admin.describe(entity)
