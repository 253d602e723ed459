"""A job to stop, restart or reset queries by name, orphans included, from the launchpad."""

from typing import Literal

import dagster as dg

from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.resources import DsControlResource


class DsControlConfig(dg.Config):
    """``queries``: names as in ``ds ps``; empty = all of the journal, orphans included (``stop`` only)."""

    action: Literal["stop", "restart", "reset"] = "stop"
    queries: list[str] = []


def build_ds_control_job(project: DsProject, *, name: str = "ds_control") -> dg.JobDefinition:
    """The job."""

    @dg.op(name=f"{name}_op")
    def control_op(context: dg.OpExecutionContext, config: DsControlConfig, ds_control: DsControlResource) -> None:
        control = ds_control.control(project)
        names = config.queries or [status.name for status in control.statuses()]
        requested_by = f"{ds_control.requested_by} run {context.run_id}"
        if config.action == "stop":
            control.stop(names, requested_by=requested_by)
        else:
            control.ensure(project.project, names, action=config.action, requested_by=requested_by)
        context.log.info(f"{config.action}: {', '.join(names) or 'nothing runs'}")

    @dg.job(name=name, description="Stop, restart or reset streaming queries by name, orphans included.")
    def control_job() -> None:
        control_op()

    return control_job
