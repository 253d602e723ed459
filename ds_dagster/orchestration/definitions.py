"""The whole Dagster surface of a project in one call."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from ds_dagster.orchestration.assets import build_ds_assets
from ds_dagster.orchestration.checks import build_ds_checks
from ds_dagster.orchestration.control_job import build_ds_control_job
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.resources import DsControlResource, build_pyspark_resource, build_store_resources
from ds_dagster.orchestration.sensors import build_ds_health_sensor
from ds_dagster.orchestration.translator import DsTranslator


def build_ds_definitions(
    project: DsProject,
    *,
    translator: DsTranslator | None = None,
    resources: Mapping[str, Any] | None = None,
    health_sensor: bool = True,
) -> dg.Definitions:
    """Assets, checks, the health sensor, the control job and the resources of a project.

    Args:
        project: the folder.
        translator: how relations map to assets.
        resources: further resources; one under a store's folded name replaces that store's values, ``ds_control`` the control
            resource, ``pyspark`` the session of loads that run in the step.
        health_sensor: leave out to observe in another way.

    Loading starts no JVM and opens no socket; pyspark is imported only when a query has ``'execution'='step'``.
    Mistakes in the SQL become failing assets (see :class:`DsProject`).
    """
    mapper = translator or DsTranslator()
    given = dict(resources or {})
    built: dict[str, Any] = {"ds_control": DsControlResource(), **given, **build_store_resources(project, given)}
    if "pyspark" not in built and any(query.execution == "step" for query in project.project.queries.values()):
        built["pyspark"] = build_pyspark_resource(project)
    return dg.Definitions(
        assets=build_ds_assets(project, mapper),
        asset_checks=build_ds_checks(project, mapper),
        sensors=[build_ds_health_sensor(project, mapper)] if health_sensor else [],
        jobs=[build_ds_control_job(project)],
        resources=built,
        executor=dg.in_process_executor,
    )
