"""Health verdicts of a job: four pure functions over its status, used by the check body and by the sensor alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import dagster as dg

from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import status_metadata
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.resources import DsControlResource
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.status import JobStatus

LAG_WARN_SECONDS = 300.0
PROGRESS_FAIL_SECONDS = 120.0
HEALTHY_STATES = ("RUNNING", "STARTING")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one check; ``metadata`` explains it."""

    passed: bool
    reason: str
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    metadata: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def check_running(status: JobStatus, props: RelationProps, now: float) -> Verdict:
    """Runs, or is wanted to be stopped."""
    if status.desired == "STOPPED":
        return Verdict(True, "stopped on request")
    if status.state in HEALTHY_STATES:
        return Verdict(True, status.state.lower())
    reason = f"{status.state}: {status.message}" if status.message else status.state
    return Verdict(False, reason, metadata={"condition": status.condition, "hint": status.hint})


def check_lag(status: JobStatus, props: RelationProps, now: float) -> Verdict:
    """Not more than five minutes of unread input; a warning, since backfills lag on purpose."""
    behind = status.lag_seconds
    if behind is None or not status.lag_records:
        return Verdict(True, "nothing waits" if status.lag_records == 0 else "lag not known yet", dg.AssetCheckSeverity.WARN)
    passed = behind <= LAG_WARN_SECONDS
    reason = f"{status.lag_records} records, {behind:.0f} s behind"
    return Verdict(passed, reason, dg.AssetCheckSeverity.WARN, {"limit_seconds": LAG_WARN_SECONDS})


def check_progress(status: JobStatus, props: RelationProps, now: float) -> Verdict:
    """While there is input, batches finish within two minutes."""
    since = status.progressed or status.started
    if status.state != "RUNNING" or not status.lag_records or since is None:
        return Verdict(True, "no input waits" if status.state == "RUNNING" else f"not running ({status.state})")
    idle = now - since
    return Verdict(
        idle <= PROGRESS_FAIL_SECONDS,
        f"last batch with rows {idle:.0f} s ago, {status.lag_records} records wait",
        metadata={"limit_seconds": PROGRESS_FAIL_SECONDS},
    )


def check_definition_current(status: JobStatus, props: RelationProps, now: float) -> Verdict:
    """The running definition is the one in the checkout; a warning, since the sensor never deploys."""
    wanted = {query.name: query.fingerprint for query in props.queries}.get(status.name)
    if not status.fingerprint or wanted is None or status.desired == "STOPPED":
        return Verdict(True, "nothing runs", dg.AssetCheckSeverity.WARN)
    passed = status.fingerprint == wanted
    reason = "current" if passed else "the SQL file has another definition: materialize with action restart or reset"
    found = {"running": status.fingerprint, "in_file": wanted}
    return Verdict(passed, reason, dg.AssetCheckSeverity.WARN, found)


CHECK_FUNCTIONS: Mapping[str, Callable[[JobStatus, RelationProps, float], Verdict]] = {
    "running": check_running,
    "lag": check_lag,
    "progress": check_progress,
    "definition_current": check_definition_current,
}


def evaluate(name: str, statuses: Sequence[JobStatus], props: RelationProps, now: float) -> Verdict:
    """One check over all jobs that fill a relation: the first failure, else the first verdict."""
    if not statuses:
        return Verdict(name != "running", "never started: materialize the asset")
    verdicts = [CHECK_FUNCTIONS[name](status, props, now) for status in statuses]
    return next((verdict for verdict in verdicts if not verdict.passed), verdicts[0])


def check_metadata(verdict: Verdict, statuses: Sequence[JobStatus]) -> dict[str, object]:
    """What is shown beside a verdict."""
    return {"reason": verdict.reason, **verdict.metadata, **(status_metadata(statuses) if statuses else {})}


def build_ds_checks(
    project: DsProject, translator: DsTranslator, *, name: str = "ds_checks"
) -> list[dg.AssetChecksDefinition]:
    """The runnable body of all health checks of a project: reads the journal once, cheap enough to run with every launch."""
    by_key = {translator.get_asset_key(props.name): props for props in project.props}
    specs = [spec for props in project.props for spec in translator.get_check_specs(props)]
    if not specs:
        return []

    @dg.multi_asset_check(name=name, specs=specs, can_subset=True, description="Health of the project's streaming queries.")
    def ds_checks(context: dg.AssetCheckExecutionContext, ds_control: DsControlResource) -> Iterator[dg.AssetCheckResult]:
        control = ds_control.control(project)
        by_name = {status.name: status for status in control.statuses()}
        now = control.clock.now()
        for key in sorted(context.selected_asset_check_keys, key=lambda key: key.to_user_string()):
            props = by_key[key.asset_key]
            statuses = [by_name[query.name] for query in props.queries if query.name in by_name]
            verdict = evaluate(key.name, statuses, props, now)
            yield dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=verdict.passed,
                severity=verdict.severity,
                metadata=check_metadata(verdict, statuses),
                description=verdict.reason,
            )

    return [ds_checks]
