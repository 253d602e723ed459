"""Dagster resources: access to the journal, and the project's Spark session."""

from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.runtime.control import Control

if TYPE_CHECKING:
    from dagster_pyspark import LazyPySparkResource


class DsControlResource(dg.ConfigurableResource[Any]):
    """Access to the journal of the project: request, inspect and stop jobs. There is no other server to connect to."""

    requested_by: str = Field(default="dagster", description="requester that the journal records")
    start_timeout_seconds: int = Field(default=120, description="seconds a launch may take before the asset fails")

    def control(self, project: DsProject) -> Control:
        """The runtime's API over the project's journal.

        Raises:
            UserError: JOURNAL_URL_INVALID, JOURNAL_NETWORK_FILE_SYSTEM, ENVIRONMENT_REFERENCE_MISSING.
        """
        return Control.open(project.settings)


CONTROL_KEY, PYSPARK_KEY = "ds_control", "pyspark"
"""Resource keys of a project without a name; see ``DsProject.named``."""


def control_resource(context: Any, project: DsProject) -> DsControlResource:
    """The control resource of a project, from the context of an op, a check or a sensor."""
    resource: DsControlResource = getattr(context.resources, project.named(CONTROL_KEY))
    return resource


def build_pyspark_resource(project: DsProject) -> "LazyPySparkResource":
    """dagster-pyspark's lazy session with the project's Spark settings and jars: for finite loads that run in the step
    (``'execution'='step'``), and for users' own batch assets. Imports pyspark; the JVM starts when the session is first
    used."""
    from ds_dagster.spark_resource import ProjectSparkResource

    return ProjectSparkResource(project=str(project.root), spark_config=dict(project.settings.spark))
