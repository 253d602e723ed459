"""The whole Dagster surface of a project in one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster_shared.libraries import DagsterLibraryRegistry

from ds_dagster.orchestration.assets import Execute, build_ds_assets
from ds_dagster.orchestration.automation import build_automation_sensor
from ds_dagster.orchestration.control_job import build_ds_control_job
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.health.checks import build_ds_checks
from ds_dagster.orchestration.health.engine import build_engine_asset, build_engine_checks
from ds_dagster.orchestration.health.sensors import build_ds_health_sensor
from ds_dagster.orchestration.loads import PLAIN_OPS, OpOptions
from ds_dagster.orchestration.resources import CONTROL_KEY, PYSPARK_KEY, DsControlResource, build_pyspark_resource
from ds_dagster.orchestration.sources import OBSERVE_SECONDS
from ds_dagster.orchestration.store_resources import build_store_resources, store_values
from ds_dagster.orchestration.surface import mapper_of, surface_of
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.project.collecting import without_collection
from ds_dagster.version import __version__

DagsterLibraryRegistry.register("ds-dagster", __version__, is_dagster_package=False)


def build_ds_definitions(
    project: DsProject,
    *,
    translator: DsTranslator | None = None,
    resources: Mapping[str, Any] | None = None,
    health_sensor: bool = True,
    observe_sources: bool = True,
    engine_asset: bool = True,
    op: OpOptions = PLAIN_OPS,
    execute: Execute | None = None,
) -> dg.Definitions:
    """Assets, checks, the health sensor, the control job and the resources of a project.

    Args:
        project: the project.
        translator: how relations map to assets.
        resources: more resources by key. A store's folded name replaces values of that store, ``ds_control`` replaces
            the control resource, ``pyspark`` the Spark session of loads that run in the step. Write these keys without
            the project's suffix.
        health_sensor: build the health sensor; False to observe in another way.
        observe_sources: the sensor looks at source entities every 15 minutes (every 45 if there are more than 50), and
            a launch looks at those never observed; observing by hand works in any case.
        engine_asset: show the engine as an asset ``ds_engine``, observed by the health sensor: whether it lives, where
            and since when, with checks for that and for jobs without a definition.
        op: pool, tags and retries of the steps that start queries and load tables.
        execute: body of the steps that start queries, called with their context, config and the control resource; it
            must call :func:`ensure_streams`, which is the default.

    Loading starts no JVM and opens no socket; pyspark is imported only when a query has ``'execution'='step'``.
    Mistakes in the SQL become failing assets (see :class:`DsProject`).

    Raises:
        UserError: RESOURCE_UNKNOWN_STORE, RESOURCE_LITERAL_SECRET, KEY_PREFIX_NOT_USED, ASSET_KEY_COLLISION,
            SELECTION_….
        ProjectError: the project is strict and has mistakes.
    """
    parts = _Parts(health_sensor, observe_sources, engine_asset, op, execute)
    with without_collection():
        return _definitions(project, mapper_of(project, translator), dict(resources or {}), parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Choices of :func:`build_ds_definitions`."""

    health_sensor: bool
    observe_sources: bool
    engine_asset: bool
    op: OpOptions
    execute: Execute | None


def _definitions(
    project: DsProject,
    mapper: DsTranslator,
    resources: dict[str, Any],
    parts: _Parts,
) -> dg.Definitions:
    values = store_values(resources)
    bound = project.with_store_values(values)
    ours: dict[str, Any] = {CONTROL_KEY: DsControlResource(), **build_store_resources(bound, resources)}
    if any(query.execution == "step" for query in bound.project.queries.values()):
        ours[PYSPARK_KEY] = resources.get(PYSPARK_KEY) or build_pyspark_resource(bound)
    ours[CONTROL_KEY] = resources.get(CONTROL_KEY, ours[CONTROL_KEY])
    others = {key: resource for key, resource in resources.items() if key not in ours}
    built = {**others, **{bound.named(key): resource for key, resource in ours.items()}}
    health = [_health_sensor(bound, mapper, parts)] if parts.health_sensor else []
    surface = surface_of(bound, mapper)
    automation = build_automation_sensor(
        bound, [surface.specs[props.name] for props in surface.shown if props.automations]
    )
    return dg.Definitions(
        assets=[
            *build_ds_assets(bound, mapper, observe_sources=parts.observe_sources, op=parts.op, execute=parts.execute),
            *([build_engine_asset(bound)] if parts.engine_asset else []),
        ],
        asset_checks=[
            *build_ds_checks(bound, mapper),
            *([build_engine_checks(bound)] if parts.engine_asset else []),
        ],
        sensors=[*health, *([automation] if automation else [])],
        jobs=[build_ds_control_job(bound)],
        resources=built,
        executor=dg.in_process_executor,
    )


def _health_sensor(project: DsProject, mapper: DsTranslator, parts: _Parts) -> dg.SensorDefinition:
    seconds = OBSERVE_SECONDS if parts.observe_sources else None
    return build_ds_health_sensor(project, mapper, observe_seconds=seconds, engine_asset=parts.engine_asset)
