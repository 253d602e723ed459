"""One health sensor per project: tells Dagster how the queries are, and starts a dead engine again. It never deploys the
checkout's definition: what runs is what the journal wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from ds_dagster.errors import DsError
from ds_dagster.orchestration.checks import CHECK_FUNCTIONS, Verdict, check_metadata, evaluate
from ds_dagster.orchestration.cursor import Cursor, Said
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import status_metadata
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.resources import DsControlResource
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import EngineStatus, JobStatus

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
TICK_SECONDS = 15
OBSERVE_SECONDS = 300.0
HEARTBEAT_SECONDS = 300.0
CHECK_SECONDS = 900.0
MANY_RELATIONS = 50
"""Above this many relations observations and heartbeats come a third as often: a runless event costs about 8 kB."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One evaluation: what to report and the new cursor."""

    events: tuple[Event, ...]
    cursor: Cursor
    summary: str


def build_ds_health_sensor(
    project: DsProject,
    translator: DsTranslator | None = None,
    *,
    name: str = "ds_health",
    minimum_interval_seconds: int = TICK_SECONDS,
) -> dg.SensorDefinition:
    """The sensor; running by default, since nothing is watched otherwise."""
    mapper = translator or DsTranslator()

    @dg.sensor(
        name=name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports health, lag and freshness of the streaming queries; restarts a dead engine.",
    )
    def ds_health(context: dg.SensorEvaluationContext, ds_control: DsControlResource) -> dg.SensorResult:
        control = ds_control.control(project)
        engine = heal(control)
        tick = observe(control, project, mapper, context.instance, Cursor.load(context.cursor))
        return dg.SensorResult(
            asset_events=list(tick.events), cursor=tick.cursor.dump(), skip_reason=f"{engine}; {tick.summary}"
        )

    return ds_health


def heal(control: Control) -> str:
    """Start the engine again when the journal wants jobs to run and nobody hosts them; says what it found or did."""
    wanted = [status for status in control.statuses() if status.desired != "STOPPED"]
    engines: Sequence[EngineStatus] = control.engines()
    alive = [engine for engine in engines if engine.state in ("RUNNING", "STARTING", "STOPPING")]
    if alive:
        return f"engine {alive[0].state.lower()} (pid {alive[0].pid})"
    if not wanted:
        return "no engine, none needed"
    if any(engine.state == "UNKNOWN" for engine in engines):
        return "engine does not answer; waiting, a second one is never started"
    try:
        started = control.ensure_engine(wait=0)
    except DsError as problem:
        return f"engine is gone and could not be started: {problem.message} [{problem.condition}]"
    return f"engine was gone, started again (pid {started.pid})" if started.pid else "engine is gone: start it where it runs"


def observe(
    control: Control, project: DsProject, translator: DsTranslator, instance: dg.DagsterInstance, cursor: Cursor
) -> Tick:
    """Everything that is worth saying now: changes at once, the rest on a slow beat."""
    statuses = {status.name: status for status in control.statuses()}
    now, events = control.clock.now(), list[Event]()
    streams = [props for props in project.props if props.is_executable and not props.is_finite]
    slow = 3.0 if len(streams) > MANY_RELATIONS else 1.0
    for props in streams:
        found = [statuses[query.name] for query in props.queries if query.name in statuses]
        if not found:
            continue
        key = translator.get_asset_key(props.name)
        path = "/".join(key.path)
        said, more = _report(key, props, found, cursor.of(path), instance, now, slow)
        cursor = cursor.with_said(path, said)
        events += more
    return Tick(tuple(events), cursor, _summary(control, project, statuses))


def _report(
    key: dg.AssetKey,
    props: RelationProps,
    found: Sequence[JobStatus],
    said: Said,
    instance: dg.DagsterInstance,
    now: float,
    slow: float,
) -> tuple[Said, list[Event]]:
    events: list[Event] = []
    position = "|".join(f"{status.incarnation}:{status.batch}" for status in found)
    if position != said.position and any(status.batch is not None for status in found):
        if now - said.beat >= HEARTBEAT_SECONDS * slow:
            events.append(_heartbeat(key, found, instance))
            said = said.with_changes(beat=now, observed=now, position=position)
        elif now - said.observed >= OBSERVE_SECONDS * slow:
            events.append(dg.AssetObservation(key, metadata=status_metadata(found)))
            said = said.with_changes(observed=now, position=position)
    verdicts = {name: evaluate(name, found, props, now) for name in CHECK_FUNCTIONS}
    passed = {name: verdict.passed for name, verdict in verdicts.items()}
    if passed != said.verdicts or now - said.checked >= CHECK_SECONDS:
        events += [_check(key, name, verdict, found) for name, verdict in verdicts.items()]
        said = said.with_changes(verdicts=passed, checked=now)
    return said, events


def _heartbeat(key: dg.AssetKey, found: Sequence[JobStatus], instance: dg.DagsterInstance) -> dg.AssetMaterialization:
    """Data advanced. Tags of the last materialization are copied: without them everything downstream turns stale."""
    last = instance.get_latest_materialization_event(key)
    kept: Mapping[str, str] = (last.asset_materialization.tags or {}) if last and last.asset_materialization else {}
    tags = {name: value for name, value in kept.items() if name.startswith("dagster/")}
    return dg.AssetMaterialization(key, metadata=status_metadata(found), tags=tags)


def _check(key: dg.AssetKey, name: str, verdict: Verdict, found: Sequence[JobStatus]) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata=check_metadata(verdict, found),
        description=verdict.reason,
    )


def _summary(control: Control, project: DsProject, statuses: Mapping[str, JobStatus]) -> str:
    counts: dict[str, int] = {}
    for status in statuses.values():
        counts[status.state.lower()] = counts.get(status.state.lower(), 0) + 1
    parts = [f"{count} {state}" for state, count in sorted(counts.items())] or ["no queries asked for yet"]
    lags = [status.lag_seconds for status in statuses.values() if status.lag_seconds is not None and status.lag_records]
    if lags:
        parts.append(f"worst lag {max(lags):.1f} s")
    orphans = control.orphans(project.project)
    if orphans:
        parts.append("orphans (run without a definition): " + ", ".join(orphan.name for orphan in orphans))
    return ", ".join(parts)
