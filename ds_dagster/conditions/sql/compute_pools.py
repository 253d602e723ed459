"""Conditions of the topic: compute pools."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "COMPUTE_POOL_UNKNOWN",
        "user",
        "there is no compute pool {name}",
        "did you mean {nearest}? declare it: CREATE COMPUTE_POOL {name} WITH ('compute_pool.cores' = 2)",
        "3D023",
    ),
    Condition(
        "COMPUTE_POOL_REFUSED",
        "user",
        "the statement of compute pool {name} is refused",
        "correct its CREATE COMPUTE_POOL first",
        "3D023",
    ),
    Condition(
        "COMPUTE_POOL_NAME",
        "user",
        "a compute pool cannot be called {name}",
        "`default` is the project's own engine; take another name, of {most} characters at most",
        "42P19",
    ),
    Condition(
        "DUPLICATE_COMPUTE_POOL",
        "user",
        "compute pool {name} is declared twice",
        "remove one of the statements",
        "42P19",
    ),
    Condition(
        "COMPUTE_POOL_PROPERTY",
        "unsupported",
        "{name} is a property of the hosted service",
        "{remedy}",
        "0A000",
    ),
    Condition(
        "COMPUTE_POOL_WITHOUT_CORES",
        "user",
        "the project's own engine takes all cores of {master}, so that engines of compute pools would get none",
        'set "spark.cores.max" under [spark] to the cores of the project\'s own engine',
    ),
    Condition(
        "COMPUTE_POOL_OF_STEP",
        "user",
        "{relation} is loaded in a Dagster step, where no compute pool runs it",
        "remove 'compute_pool' from QUERY WITH, or 'execution' = 'step'",
    ),
    Condition(
        "POOL_ENGINE_NOT_RUNNING",
        "external",
        "the engine of compute pool {pool} does not run",
        "start it with `ds engine start --pool {pool}`; if the project no longer declares the pool, `ds apply --allow "
        "restart` moves its queries, and `ds stop` ends those without a statement",
    ),
)
