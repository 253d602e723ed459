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

    A query is materialized when its definition changes: what it reads flows by itself. A load also when one of its
    inputs has been updated since, as :meth:`dagster.AutomationCondition.eager` does. None is requested while it is in
    progress; of partitions only the newest.
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
    """Of the inputs that Dagster fills: a source that others fill is never materialized."""
    missing = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.missing())
    return missing.allow(dg.AssetSelection.all().materializable())


def build_automation_sensor(
    project: DsProject, specs: Sequence[dg.AssetSpec]
) -> dg.AutomationConditionSensorDefinition | None:
    """The sensor over these assets, running by default; None where none of them has a condition."""
    keys = [spec.key for spec in specs if spec.automation_condition is not None]
    if not keys:
        return None
    return dg.AutomationConditionSensorDefinition(
        project.named(AUTOMATION_NAME),
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Materializes relations with @automation in their comment.",
    )
