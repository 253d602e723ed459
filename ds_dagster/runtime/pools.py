"""Settings of a compute pool's engine: the project's settings with the cores and the memory of the pool."""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.catalog.compute_pool import ComputePool
from ds_dagster.catalog.executors import with_cores
from ds_dagster.project.load import load_project
from ds_dagster.settings import Settings


def pool_settings(settings: Settings, pool: str) -> Settings:
    """Settings of one engine of a project.

    Args:
        settings: of the project.
        pool: compute pool of the engine; empty: the project's own.

    Raises:
        UserError: COMPUTE_POOL_UNKNOWN, COMPUTE_POOL_REFUSED.
    """
    if not pool:
        return settings
    return with_pool(settings, load_project(settings.root, settings=settings).catalog.pool(pool))


def with_pool(settings: Settings, pool: ComputePool) -> Settings:
    """The project's settings with the size of a declared pool; on a cluster its cores are those of executors."""
    if settings.engine.is_cluster:
        sized = with_cores(settings, pool.cores)
    else:
        sized = replace(settings, engine=replace(settings.engine, cores=pool.cores))
    return replace(sized, pool=pool.name, engine=replace(sized.engine, memory=pool.memory))
