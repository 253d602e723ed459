"""What a project needs: cores, memory, disk, engines and partitions; how long its batches take, and which limit is
reached first.

The model is a steady state of jobs that run batch after batch on ``C`` cores:

- rows use a share ``u`` of the cores: the sum of rows per second times their processor time, divided by ``C``;
- every batch costs a fixed time, also without rows: planning, checkpoint, a task for each state partition and step;
- so a batch of one job takes ``fixed / (1 - u)``, and of all jobs together at least ``sum of fixed / (C (1 - u))``.

The plan keeps ``u`` at ``1 / headroom`` or less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.catalog.executors import cores_of
from ds_dagster.catalog.properties.latency import KEPT_SLOTS
from ds_dagster.errors import error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.pools import with_pool
from ds_dagster.runtime.sizing.coefficients import Coefficient, Coefficients
from ds_dagster.runtime.sizing.demand import Demand, RowFlow, demand_of, needs_keys
from ds_dagster.runtime.sizing.expected import ExpectedLoad
from ds_dagster.settings import Settings

MEGABYTE = 1e6
PARTITIONS = "spark.sql.shuffle.partitions"
DAY_SECONDS = 86_400
_SIZES = {"k": 2**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}


@dataclass(frozen=True, slots=True)
class Today:
    """The resources of the present settings: cores, heap, state partitions, and the limit for the bytes of a batch, if
    the driver of a cluster writes to Kafka."""

    cores: int
    heap_megabytes: float
    partitions: int
    batch_megabytes: int | None

    @classmethod
    def of(cls, settings: Settings) -> Today:
        """Read from settings. On a cluster, cores are the executors' cores (1 if a standalone master gives all)."""
        engine, spark = settings.engine, settings.spark
        cores = engine.cores
        if engine.is_cluster:
            cores = cores_of(settings) or 1
        partitions = int(spark.get(PARTITIONS, str(cores if engine.is_cluster else 1)))
        limit = engine.batch_megabytes if engine.is_cluster and engine.kafka_writers == "driver" else None
        return cls(cores, megabytes(engine.memory), partitions, limit)


LARGEST_HEAP = 131_072
"""Megabytes of heap, for one JVM, above which an answer is arithmetic alone."""


@dataclass(frozen=True, slots=True)
class SizeGoal:
    """Requirements for the answer: seconds that a batch may take, and cores of one engine's machine (None: the
    coefficient ``engine.cores``)."""

    batch_seconds: float = 1.0
    host_cores: int | None = None


@dataclass(frozen=True, slots=True)
class QuerySize:
    """The size of one query.

    Attributes:
        demand: what it needs.
        partitions: number of partitions of its state, and of the topics it reads.
        batch_seconds: time of a batch with the cores of the answer; 0 in real-time mode.
        batch_rows: rows in such a batch.
        disk: size of its checkpoint, in bytes.
    """

    demand: Demand
    partitions: int
    batch_seconds: float
    batch_rows: float
    disk: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A resource that may run out. ``share``: the part that is used with the present settings; above 1 it is not
    enough. ``grows``: whether the use grows with the rows."""

    name: str
    share: float
    about: str
    grows: bool = True

    @property
    def factor(self) -> float | None:
        """Multiple of the present load at which it runs out; None if the use does not grow with the load, or is 0."""
        return 1 / self.share if self.grows and self.share > 0 else None


@dataclass(frozen=True, slots=True)
class Sizing:
    """The answer for the queries of the project's own engine, or of a compute pool's engine.

    Attributes:
        queries: in the project's order.
        engines: number of engines that the queries need.
        cores, heap_megabytes: of one of these engines.
        pod_megabytes: memory of the machine or pod of one engine.
        disk: bytes for the checkpoints of all engines.
        partitions: number of state partitions (``spark.sql.shuffle.partitions``).
        batch_seconds: time of the longest batch.
        least_batch_seconds: time of the longest batch with any number of cores.
        limits: resources with the present settings, the most used first.
        growth: texts about state that grows without end.
        on_disk: texts about queries whose groups are better kept on disk.
        taken: figures that were not measured.
        slots: task slots that queries in real-time mode need, with those they leave to batches; 0 without such queries.
    """

    queries: tuple[QuerySize, ...]
    engines: int
    cores: int
    heap_megabytes: int
    pod_megabytes: int
    disk: float
    partitions: int
    batch_seconds: float
    least_batch_seconds: float
    limits: tuple[Limit, ...]
    growth: tuple[str, ...]
    on_disk: tuple[str, ...]
    taken: tuple[Coefficient, ...]
    slots: int = 0


def sizings_of(
    project: LoadedProject, expected: ExpectedLoad, figures: Coefficients, goal: SizeGoal
) -> Mapping[str, Sizing]:
    """Size a project, engine by engine.

    Returns:
        Compute pool → the size of its engine; first the project's own engine, with an empty name. Pools without queries
        have no entry.

    Raises:
        UserError: SIZE_LOAD_MISSING.
    """
    placed: dict[str, list[Demand]] = {"": []}
    for demand in demands_of(project, expected, figures):
        placed.setdefault(project.queries[demand.query].pool, []).append(demand)
    return {pool: _sizing(demands, _today(project, pool), figures, goal) for pool, demands in placed.items()}


def _today(project: LoadedProject, pool: str) -> Today:
    if not pool:
        return Today.of(project.settings)
    return Today.of(with_pool(project.settings, project.catalog.pool(pool)))


def _sizing(demands: Sequence[Demand], today: Today, figures: Coefficients, goal: SizeGoal) -> Sizing:
    headroom = figures.value("headroom")
    partitions = {demand.query: max(1, math.ceil(demand.cores * headroom)) for demand in demands}
    fixed = {demand.query: fixed_seconds(demand, partitions[demand.query], figures) for demand in demands}
    total = sum(demand.cores for demand in demands)
    cores = cores_for(total, list(fixed.values()), goal.batch_seconds, headroom)
    most = goal.host_cores or int(figures.value("engine.cores"))
    engines = max(1, math.ceil(cores / most), math.ceil(len(demands) / figures.value("engine.jobs")))
    free = 1 - total / cores
    shared = sum(fixed.values()) / (cores * free)
    queries = tuple(
        _query_size(demand, partitions[demand.query], max(fixed[demand.query] / free, shared), figures)
        for demand in demands
    )
    heap = _heap(queries, engines, figures)
    return Sizing(
        queries=queries,
        engines=engines,
        cores=math.ceil(cores / engines),
        heap_megabytes=heap,
        pod_megabytes=heap + int(figures.value("engine.outside")),
        disk=sum(query.disk for query in queries),
        partitions=max((query.partitions for query in queries if query.demand.steps), default=1),
        batch_seconds=max((query.batch_seconds for query in queries), default=0.0),
        least_batch_seconds=max(fixed.values(), default=0.0),
        limits=tuple(sorted(_limits(queries, heap * engines, today, figures), key=_by_share)),
        growth=tuple(text for query in queries for text in _growth(query.demand)),
        on_disk=tuple(text for demand in demands for text in _better_on_disk(demand, figures)),
        taken=_taken(demands, figures),
        slots=_slots(demands),
    )


def _slots(demands: Iterable[Demand]) -> int:
    taken = sum(demand.slots for demand in demands)
    return taken + KEPT_SLOTS if taken else 0


def demands_of(project: LoadedProject, expected: ExpectedLoad, figures: Coefficients) -> Sequence[Demand]:
    """The demand of each query in the project's order; the rows that a query writes are the input of its readers.

    Raises:
        UserError: SIZE_LOAD_MISSING.
    """
    stores = {name: store.kind.lower() for name, store in project.catalog.stores.items()}
    rows: dict[str, float] = {}
    missing: dict[str, None] = {}
    demands = []
    for query in project.queries.values():
        _put_rows(query, rows, expected, missing)
        measured = query.name in expected.measured
        if needs_keys(query) and expected.keys_of(query.name) is None and not measured:
            missing[f"--keys {query.name}=…"] = None
        if not missing:
            demand = demand_of(query, RowFlow(rows, stores, expected, figures))
            demands.append(demand)
            _add_results(query, demand, rows, expected)
        else:
            rows |= {str(sink.name): 0.0 for sink in query.sinks}
    if missing:
        raise error("SIZE_LOAD_MISSING", count=len(missing), options=" ".join(missing))
    return demands


def _put_rows(query: BoundQuery, rows: dict[str, float], expected: ExpectedLoad, missing: dict[str, None]) -> None:
    """Add to ``rows`` the rows per second of each relation that the query reads: stated, else written by another query,
    else measured. ``missing`` gets the options for relations without a figure."""
    scans = {scan.source_name: scan.relation for scan in query.plan.walk() if isinstance(scan, Scan)}
    measured = expected.measured.get(query.name)
    for relation in scans.values():
        stated = expected.rows_of(relation)
        if stated is not None:
            rows[str(relation.name)] = stated
        elif str(relation.name) not in rows and measured is not None and measured.rows:
            rows[str(relation.name)] = measured.rows / len(scans)
        elif str(relation.name) not in rows:
            missing[f"--rows {relation.name.name}=…"] = None
            rows[str(relation.name)] = 0.0


def _add_results(query: BoundQuery, demand: Demand, rows: dict[str, float], expected: ExpectedLoad) -> None:
    for sink in query.sinks:
        if expected.rows_of(sink) is None:
            rows[str(sink.name)] = rows.get(str(sink.name), 0.0) + demand.rows_out / len(query.sinks)


def fixed_seconds(demand: Demand, partitions: int, figures: Coefficients) -> float:
    """Seconds that a batch of the query takes without rows, with the copy of its groups on the heap; 0 for a query in
    real-time mode, whose batch lasts as long as its checkpoint interval whatever it costs."""
    if demand.slots:
        return 0.0
    steps = len(demand.steps)
    each = figures.value("batch.step") + figures.value("batch.partition") * (partitions - 1)
    return (figures.value("batch.rows") + steps * each + _copy_millis(demand, figures)) / 1000


def _copy_millis(demand: Demand, figures: Coefficients) -> float:
    """Milliseconds in which a batch copies the map of the groups on the heap."""
    return demand.groups_on_heap * figures.value("batch.group_on_heap") / 1000


def cores_for(total: float, fixed: Sequence[float], batch_seconds: float, headroom: float) -> int:
    """The fewest cores that process the rows with headroom, and the fixed times of all batches within
    ``batch_seconds``.

    Args:
        total: cores that rows use.
        fixed: seconds of each query's batch without rows.
        batch_seconds: the longest batch. If one query's fixed time alone is nearly as long, cores are not added for it:
            that would take many times the cores of the rows.
        headroom: planned cores for each core that rows use.
    """
    for_rows = max(1, math.ceil(total * headroom))
    for_batches = math.ceil(total + sum(fixed) / batch_seconds) if fixed else 1
    return max(for_rows, for_batches)


def _query_size(demand: Demand, partitions: int, batch_seconds: float, figures: Coefficients) -> QuerySize:
    batch_seconds = 0.0 if demand.slots else batch_seconds
    batch_rows = demand.rows_in * batch_seconds
    changed = 0.0
    if demand.steps:
        changed = batch_rows * demand.record_bytes * figures.value("batch.kept")
    disk = demand.state * figures.value("checkpoint.copies") + changed
    return QuerySize(demand, partitions, batch_seconds, batch_rows, disk)


def _heap(queries: Sequence[QuerySize], engines: int, figures: Coefficients) -> int:
    """Megabytes of one engine's heap, a multiple of 512: process, jobs, rows of batches, state on the heap."""
    jobs = figures.value("job.memory") * len(queries)
    batches = sum(query.batch_rows * query.demand.record_bytes for query in queries) / MEGABYTE
    on_heap = sum(query.demand.state for query in queries if query.demand.on_heap) / MEGABYTE
    more = jobs + figures.value("state.heap") * (batches + on_heap)
    return max(2, math.ceil((figures.value("engine.heap") + more / engines) / 512)) * 512


def _limits(queries: Sequence[QuerySize], heap: float, today: Today, figures: Coefficients) -> Iterator[Limit]:
    """Resources of the present settings, with the part that is used."""
    total = sum(query.demand.cores for query in queries)
    yield Limit("cores", total / today.cores, f"rows take {total:.2f} of {today.cores} cores")
    yield Limit("memory", heap / today.heap_megabytes, f"{heap:,.0f} of {today.heap_megabytes:,.0f} MB of heap", False)
    most = figures.value("engine.jobs")
    yield Limit(
        "jobs", len(queries) / most, f"{len(queries)} of {most:.0f} jobs that one engine was measured with", False
    )
    slots = _slots(query.demand for query in queries)
    if slots:
        about = f"{slots} of {today.cores} task slots: queries in real-time mode, and {KEPT_SLOTS} for batches"
        yield Limit("slots", slots / today.cores, about, False)
    stateful = [query for query in queries if query.demand.steps]
    if stateful:
        largest = max(stateful, key=lambda query: query.demand.cores)
        share = largest.demand.cores / today.partitions
        about = f"{largest.demand.query} takes {largest.demand.cores:.2f} cores in {today.partitions} state partitions"
        yield Limit("partitions", share, about)
    if today.batch_megabytes is not None and queries:
        largest = max(queries, key=lambda query: query.batch_rows * query.demand.record_bytes)
        size = largest.batch_rows * largest.demand.record_bytes / MEGABYTE
        about = f"a batch of {largest.demand.query} brings {size:.1f} of {today.batch_megabytes} MB through the driver"
        yield Limit("batch_megabytes", size / today.batch_megabytes, about)


def _by_share(limit: Limit) -> float:
    return -limit.share


def _growth(demand: Demand) -> Iterator[str]:
    for step in demand.steps:
        if step.grows:
            each = step.bytes / step.kept if step.kept else demand.record_bytes
            daily = step.rows * DAY_SECONDS * each / 1e9
            yield f"{demand.query}: {'; '.join(step.grows)}: up to {daily:,.1f} GB more each day"


def _better_on_disk(demand: Demand, figures: Coefficients) -> Iterator[str]:
    """Why the groups of a query are better kept on disk; nothing below the measured number of groups."""
    groups = demand.groups_on_heap
    if groups <= figures.value("state.heap_groups"):
        return
    millis = _copy_millis(demand, figures)
    memory = demand.state * figures.value("state.heap") / MEGABYTE
    new = "" if demand.may_move else ", as a new version"
    yield (
        f"{demand.query} keeps {groups:,.0f} groups on the heap: {memory:,.0f} MB, and each batch copies their map for "
        f"{millis:,.0f} ms; QUERY WITH ('state.store' = 'rocksdb') keeps them on disk{new}"
    )


_ALWAYS = (
    *("headroom", "state.heap", "batch.step", "batch.kept", "checkpoint.copies"),
    *("engine.jobs", "engine.cores", "engine.heap", "engine.outside"),
)


def _taken(demands: Sequence[Demand], figures: Coefficients) -> tuple[Coefficient, ...]:
    """Figures of the answer that were not measured, each once."""
    always: Mapping[str, Coefficient] = {name: figures.entries[name] for name in _ALWAYS}
    entries = {**always, **{figure.name: figure for demand in demands for figure in demand.taken}}
    return tuple(figure for figure in entries.values() if not figure.is_measured)


def megabytes(memory: str) -> float:
    """Megabytes of a setting such as ``512m`` or ``2g``, as Java reads it; infinite if it has another form."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt])b?\s*", memory.lower())
    return float(match[1]) * _SIZES[match[2]] if match else float("inf")
