"""Properties of CREATE COMPUTE_POOL, and the property that assigns a query to a pool."""

from __future__ import annotations

from ds_dagster.catalog.properties.spec import PropertySpec

COMPUTE_POOL: tuple[PropertySpec, ...] = (
    PropertySpec(
        "compute_pool.cores",
        "integer",
        ("compute_pool",),
        "Spark slots of its engine; default `engine.cores` of the settings. On a cluster: cores of its executors, "
        "default those of the project's own engine",
        minimum=1,
    ),
    PropertySpec(
        "compute_pool.memory",
        "text",
        ("compute_pool",),
        "heap of its engine's Spark driver, as 512m or 2g; default `engine.memory` of the settings",
    ),
    PropertySpec(
        "compute_pool",
        "name",
        ("query",),
        "compute pool whose engine runs the query; default: the project's own engine",
    ),
)
