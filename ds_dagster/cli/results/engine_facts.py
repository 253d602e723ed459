"""``ds doctor``: do the engines that this machine starts fit on it, the project's own and those of compute pools?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ds_dagster.catalog.executors import cores_of
from ds_dagster.local.doctor import Fact, total_memory
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.pools import with_pool
from ds_dagster.runtime.sizing.estimate import megabytes
from ds_dagster.settings import EngineSettings, Settings

LEAST_HEAP_MEGABYTES = 512
"""Spark refuses to start with less than 450 MB, of which the collector takes a part away."""
DEFAULT_CORES = EngineSettings().cores
"""No fault on any machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``cores``; ``megabytes`` of memory, None if unknown."""

    cores: int
    megabytes: float | None

    @classmethod
    def this(cls) -> Machine:
        """The machine or container of this process."""
        memory = total_memory()
        return cls(os.cpu_count() or 1, None if memory is None else memory / 1024**2)


def engine_facts(project: LoadedProject, machine: Machine) -> tuple[Fact, ...]:
    """Cores and heap of each engine, then the heaps of those that have queries together. None where engines are started
    elsewhere."""
    settings = project.settings
    if settings.engine.launcher != "local":
        return ()
    engines = {"": settings}
    for name, pool in (project.catalog.pools or {}).items():
        if pool is not None:
            engines[name] = with_pool(settings, pool)
    facts = [_fact(name, of_engine, machine) for name, of_engine in engines.items()]
    used = {query.pool for query in project.queries.values()}
    together = _together([of_engine.engine for name, of_engine in engines.items() if name in used], machine)
    return (*facts, *together)


def _fact(pool: str, settings: Settings, machine: Machine) -> Fact:
    engine = settings.engine
    cores, memory = ("compute_pool.cores", "compute_pool.memory") if pool else ("engine.cores", "engine.memory")
    heap = megabytes(engine.memory)
    faults = []
    if not engine.is_cluster and engine.cores > max(machine.cores, DEFAULT_CORES):
        faults.append(f"{cores} to {machine.cores}, the cores of this machine")
    if machine.megabytes is not None and heap > machine.megabytes:
        faults.append(f"{memory} below {_gigabytes(machine.megabytes)}, the memory of this machine")
    if heap < LEAST_HEAP_MEGABYTES:
        faults.append(f"{memory} to {LEAST_HEAP_MEGABYTES}m or more, without which Spark does not start")
    shown = f"{_cores(settings)}, heap {engine.memory}"
    return Fact(f"compute pool {pool}" if pool else "engine", not faults, shown, _fix(faults))


def _cores(settings: Settings) -> str:
    if not settings.engine.is_cluster:
        return f"{settings.engine.cores} cores"
    return f"{cores_of(settings) or 'all'} cores of {settings.engine.master}"


def _together(engines: Sequence[EngineSettings], machine: Machine) -> tuple[Fact, ...]:
    if len(engines) < 2 or machine.megabytes is None:
        return ()
    heaps = sum(megabytes(engine.memory) for engine in engines)
    is_ok = heaps <= machine.megabytes
    shown = f"heaps of {len(engines)} engines {_gigabytes(heaps)}, this machine {_gigabytes(machine.megabytes)}"
    return (Fact("engines together", is_ok, shown, "" if is_ok else "lower compute_pool.memory, or engine.memory"),)


def _fix(faults: list[str]) -> str:
    return f"set {'; '.join(faults)}" if faults else ""


def _gigabytes(amount: float) -> str:
    return f"{amount / 1024:.1f} GiB"
