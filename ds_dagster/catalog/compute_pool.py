"""CREATE COMPUTE_POOL → a further engine of the project, with cores and memory of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ds_dagster.catalog.executors import EXECUTOR_CORES, cores_of, executor_size
from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.records import Findings
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.settings import MEMORY, MEMORY_FORM, Settings
from ds_dagster.sql.statements import CreateComputePool, Property

RESERVED = "default"
"""Name of the project's own engine."""
LONGEST_NAME = 48
CORES, MEMORY_PROPERTY = "compute_pool.cores", "compute_pool.memory"
OF_THE_SERVICE: Mapping[str, str] = {
    "compute_pool.size": "write 'compute_pool.cores' = 2, 'compute_pool.memory' = '2g': the size of the engine's "
    "process",
    "compute_pool.timeout_min": "remove it: the engine of a pool ends by itself a minute after its last query has "
    "stopped, and `ds apply` starts it again",
}
"""Properties of the hosted service → what to write instead."""


@dataclass(frozen=True, slots=True)
class ComputePool:
    """A declared pool.

    Attributes:
        name: folded.
        cores: Spark slots of its engine; on a cluster, cores of its executors.
        memory: heap of its driver, as ``512m`` or ``2g``.
        span: of the name.
    """

    name: str
    cores: int
    memory: str
    span: Span


def declare_pools(
    statements: Iterable[CreateComputePool], settings: Settings, index: PropertyIndex, findings: Findings
) -> Mapping[str, ComputePool | None]:
    """Pools by folded name, None for a refused statement."""
    pools: dict[str, ComputePool | None] = {}
    spans: dict[str, CreateComputePool] = {}
    for statement in statements:
        name = str(statement.name)
        first = spans.setdefault(name, statement)
        if first is not statement:
            if not (statement.if_not_exists and _values(statement) == _values(first)):
                findings.add(error("DUPLICATE_COMPUTE_POOL", span=statement.name.span, name=name), first.name.span)
            continue
        own = Findings()
        pool = _declared(statement, settings, index, own)
        findings.extend(own.diagnostics)
        pools[name] = None if own.failed else pool
    return pools


def _declared(
    statement: CreateComputePool, settings: Settings, index: PropertyIndex, findings: Findings
) -> ComputePool:
    name, span = str(statement.name), statement.name.span
    if name == RESERVED or len(name) > LONGEST_NAME:
        findings.add(error("COMPUTE_POOL_NAME", span=span, name=name, most=LONGEST_NAME))
    for item in statement.properties:
        if item.name in OF_THE_SERVICE:
            findings.add(_of_the_service(item))
    written = [item for item in statement.properties if item.name not in OF_THE_SERVICE]
    pulled = index.pull(written, "compute_pool")
    findings.extend(pulled.diagnostics)
    cores, memory = _cores(pulled.values.get(CORES), settings, span, findings), pulled.values.get(MEMORY_PROPERTY)
    if memory is not None and not MEMORY.fullmatch(str(memory.value)):
        wrong = {"name": MEMORY_PROPERTY, "value": str(memory.value), "allowed": MEMORY_FORM}
        findings.add(error("PROPERTY_INVALID", span=memory.span, **wrong))
    return ComputePool(
        name,
        cores,
        settings.engine.memory if memory is None else str(memory.value),
        span,
    )


def _cores(written: PropertyValue | None, settings: Settings, span: Span, findings: Findings) -> int:
    """Cores of a pool: as written, else those of the project's own engine."""
    cores = None if written is None else int(str(written.value))
    if not settings.engine.is_cluster:
        return settings.engine.cores if cores is None else cores
    own, size = cores_of(settings), executor_size(settings)
    if own is None:
        findings.add(error("COMPUTE_POOL_WITHOUT_CORES", span=span, master=settings.engine.master))
    if written is not None and cores is not None and cores % size:
        allowed = f"a multiple of {EXECUTOR_CORES} ({size})"
        findings.add(error("PROPERTY_INVALID", span=written.span, name=CORES, value=str(cores), allowed=allowed))
    return cores or own or size


def _of_the_service(item: Property) -> DsError:
    return error("COMPUTE_POOL_PROPERTY", span=item.span, name=item.name, remedy=OF_THE_SERVICE[item.name])


def _values(statement: CreateComputePool) -> Mapping[str, object]:
    return {item.name: item.value for item in statement.properties}
