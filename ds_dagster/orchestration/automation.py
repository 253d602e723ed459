"""``@automation`` → Dagster's automation conditions, and the sensor that evaluates them."""

from collections.abc import Sequence

import dagster as dg

from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.sql.annotations import Automation

AUTOMATION_NAME = "ds_automation"


def automation_condition(
    rule: Automation, *, is_load: bool, is_partitioned: bool = False
) -> dg.AutomationCondition[dg.AssetKey]:
    """The condition of one ``@automation``.

    With a cron schedule: at its ticks. Otherwise a long-lived query is materialized when its definition changes, since
    it reads new input by itself; a load also when one of its inputs was updated, as
    :meth:`dagster.AutomationCondition.eager` does. Nothing is requested while a materialization is in progress; of a
    partitioned table only the newest partition is.
    """
    condition = dg.AutomationCondition
    if rule.cron:
        due = condition.cron_tick_passed(rule.cron, rule.timezone)
    elif is_load:
        due = condition.code_version_changed() | condition.newly_missing() | condition.any_deps_updated()
    else:
        due = condition.code_version_changed() | condition.newly_missing()
    waiting = due.since(condition.newly_requested() | condition.initial_evaluation())
    ready = waiting & ~_some_input_was_never_filled() if is_load else waiting
    ready = ready & condition.in_latest_time_window() if is_partitioned else ready
    return ready & ~condition.in_progress()


def _some_input_was_never_filled() -> dg.AutomationCondition[dg.AssetKey]:
    """Whether an input that Dagster fills was never materialized; sources never are, so they do not count."""
    missing = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.missing())
    return missing.allow(dg.AssetSelection.all().materializable())


def build_automation_sensor(
    project: DsProject, specs: Sequence[dg.AssetSpec]
) -> dg.AutomationConditionSensorDefinition | None:
    """The sensor over these assets, running by default; None if no asset has a condition."""
    keys = [spec.key for spec in specs if spec.automation_condition is not None]
    if not keys:
        return None
    return dg.AutomationConditionSensorDefinition(
        project.named(AUTOMATION_NAME),
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Materializes relations with @automation in their comment.",
    )
