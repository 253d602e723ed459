"""A job to stop, restart or reset queries by name, orphans included, from the launchpad."""

from collections.abc import Sequence
from typing import Literal

import dagster as dg
from pydantic import Field

from ds_dagster.errors import DsError, error
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import failure_of
from ds_dagster.orchestration.launch import DOWN_STATES, RESTING_STATES, UP_STATES, ActionConfig, launch_failure
from ds_dagster.orchestration.resources import CONTROL_KEY, control_resource
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import JobStatus


class DsControlConfig(ActionConfig):
    """What to do, and with which queries; give either ``queries`` or ``all``.

    ``queries``: names as in ``ds ps``. ``all``: every query that should be running (orphans can only be stopped, since
    they have no definition to start from). ``allow_duplicates``, ``from_now``, ``empty``,
    ``allow_partial``: see :class:`~ds_dagster.orchestration.launch.ActionConfig`.
    """

    action: Literal["stop", "restart", "reset"]
    queries: list[str] = Field(default_factory=list)
    all: bool = False

    def is_one_choice(self) -> bool:
        """Whether exactly one of ``queries`` and ``all`` is given."""
        return bool(self.queries) != self.all


def build_ds_control_job(project: DsProject, *, name: str | None = None) -> dg.JobDefinition:
    """The job; it ends when the engine has acted on the request, at the latest after ``start_timeout_seconds`` of the
    control resource. It fails if a query does not reach the requested state."""
    name, key = name or project.named("ds_control"), project.named(CONTROL_KEY)

    @dg.op(name=f"{name}_op", tags={"dagster/max_runtime": "900"}, required_resource_keys={key})
    def control_op(context: dg.OpExecutionContext, config: DsControlConfig) -> None:
        ds_control = control_resource(context, project)
        requested_by = f"{ds_control.requested_by} run {context.run_id}"
        try:
            if not config.is_one_choice():
                raise error("CONTROL_WITHOUT_QUERIES", action=config.action)
            control = ds_control.control(project)
            names = config.queries or _all(control, project, config.action)
            answers = control.ensure(
                project.project,
                names,
                action=config.action,
                requested_by=requested_by,
                allow=config.consents(),
            )
            if config.action != "stop" and answers:
                control.ensure_engines([ensured.name for ensured in answers])
            generations = {ensured.name: ensured.generation for ensured in answers}
            waited = [name for name in generations if config.action == "stop" or not _is_load(project, name)]
            statuses = control.wait(waited, generations, ds_control.start_timeout_seconds)
            failure = _failure(control, statuses, config.action, ds_control.start_timeout_seconds)
        except DsError as problem:
            raise failure_of(problem) from problem
        for status in statuses:
            context.log.info(f"{status.name}: {status.state}")
        context.log.info(f"{config.action}: {', '.join(generations) or 'nothing to do'}")
        if failure is not None:
            raise failure

    @dg.job(name=name, description="Stop, restart or reset streaming queries by name, orphans included.")
    def control_job() -> None:
        control_op()

    return control_job


def _is_load(project: DsProject, name: str) -> bool:
    """Whether a query is finite: after a reset it waits for its next run."""
    return project.project.queries[name].is_finite


def _failure(control: Control, statuses: Sequence[JobStatus], action: str, timeout: int) -> dg.Failure | None:
    """Queries that failed, or are not in the requested state in time."""
    late: list[str] = []
    if action == "stop":
        slow = [status.name for status in statuses if status.state not in RESTING_STATES]
        if slow:
            late.append(str(error("RELATION_NOT_STOPPED", count=len(slow), names=slow)))
        return launch_failure(control, (), (), late)
    failed = [status for status in statuses if status.state in DOWN_STATES]
    slow = [status.name for status in statuses if status.state not in DOWN_STATES | UP_STATES]
    if slow:
        late.append(str(error("RELATION_NOT_STARTED", count=len(slow), seconds=timeout, names=slow)))
    return launch_failure(control, (), failed, late)


def _all(control: Control, project: DsProject, action: str) -> list[str]:
    wanted = [status.name for status in control.statuses() if status.desired != "STOPPED"]
    if action == "stop":
        return wanted
    streams = {query.name for props in project.streams for query in props.queries}
    return [name for name in wanted if name in streams]
