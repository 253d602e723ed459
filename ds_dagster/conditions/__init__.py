"""Condition name → kind, message template and hint: the one table of everything that can go wrong.

One file per topic; each holds a tuple ``CONDITIONS`` of :class:`Condition`. Names are stable, parameters are values
and never sentences, a message is short, lower case and without a full stop, a hint can be acted on.
``docs/reference/errors.md`` is generated from this table.
"""

from __future__ import annotations

from ds_dagster.conditions import (
    backfill,
    catalog,
    cdc,
    cluster,
    command,
    files,
    local,
    orchestration,
    project,
    registry,
    row_logs,
    rows,
    runtime,
    savepoints,
    secret,
    spark,
    stores,
    testing,
    versions,
)
from ds_dagster.conditions.base import Condition, render
from ds_dagster.conditions.sql import (
    applications,
    compute_pools,
    constants,
    constraints,
    functions,
    patterns,
    query,
    realtime,
    sets,
    state_store,
    statements,
    syntax,
)

__all__ = ["CONDITIONS", "Condition", "render"]

TOPICS = (
    syntax, statements, project, catalog, query, constants, constraints, applications, patterns, sets, rows, stores,
    cdc, files, functions, secret, registry, row_logs, spark, cluster, compute_pools, runtime, versions, realtime,
    state_store, savepoints, backfill, orchestration, local, testing, command,
)  # fmt: skip

CONDITIONS: dict[str, Condition] = {condition.name: condition for topic in TOPICS for condition in topic.CONDITIONS}
