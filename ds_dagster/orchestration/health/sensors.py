"""One health sensor per project: it reports the state of the queries to Dagster, and restarts a dead engine. It never
deploys the checkout's definition: the engine runs the definitions in the journal."""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from ds_dagster.errors import DsError
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.health.checks import Health
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.health.engine import EngineHealth, engine_events, engine_key
from ds_dagster.orchestration.health.history import transitions_told
from ds_dagster.orchestration.health.report import MANY_RELATIONS, Reporter, is_checked_source
from ds_dagster.orchestration.health.unseen import unseen_events
from ds_dagster.orchestration.resources import CONTROL_KEY, control_resource
from ds_dagster.orchestration.sources import OBSERVE_SECONDS, SourceWatch, observable
from ds_dagster.orchestration.surface import mapper_of, surface_of
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.placing import shown_pool
from ds_dagster.runtime.processes.liveness import pool_name
from ds_dagster.runtime.status import EngineStatus, JobStatus

TICK_SECONDS = 15
START_DELAY, LONGEST_START_DELAY = 15.0, 600.0
"""Seconds until an engine that did not come up is started again: doubled each time, up to the longest."""

MANY_FACTOR = 3.0
"""Factor on the time between two looks at an entity if there are more than ``MANY_RELATIONS`` sources."""
ALIVE = frozenset({"RUNNING", "STARTING", "STOPPING"})


def build_ds_health_sensor(
    project: DsProject,
    translator: DsTranslator | None = None,
    *,
    name: str | None = None,
    minimum_interval_seconds: int = TICK_SECONDS,
    observe_seconds: float | None = OBSERVE_SECONDS,
    engine_asset: bool = False,
) -> dg.SensorDefinition:
    """The sensor; running by default, since without it nothing watches the queries.

    Args:
        project: the project.
        translator: how relations map to assets; the same object as for the assets.
        name: of the sensor; ``ds_health`` by default.
        minimum_interval_seconds: between two ticks.
        observe_seconds: between two looks at a source's entity (three times as long if there are more than 50 sources);
            None to look at none.
        engine_asset: report the engine on its asset (``build_engine_asset``), too.
    """
    mapper = mapper_of(project, translator)
    surface = surface_of(project, mapper)
    shown = [props for props in surface.shown if props.is_stream or props.mistakes or is_checked_source(props)]
    sources = tuple(props for props in surface.shown if observable(props)) if observe_seconds is not None else ()
    parents = {spec.key: [dep.asset_key for dep in spec.deps] for spec in surface.specs.values()}
    engine_path = "/".join(engine_key(project).path)
    judged = [*(mapper.get_asset_key(props.name) for props in shown), engine_key(project)]
    slow = MANY_FACTOR if len(sources) > MANY_RELATIONS else 1.0
    watch = SourceWatch(project, mapper, sources, OBSERVE_SECONDS if observe_seconds is None else observe_seconds, slow)

    @dg.sensor(
        name=name or project.named("ds_health"),
        required_resource_keys={project.named(CONTROL_KEY)},
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports health, lag and freshness of the streaming queries; restarts a dead engine.",
    )
    def ds_health(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            control = control_resource(context, project).control(project)
            health = Health.read(control, project)  # before an engine is restarted
            orphans = control.orphans(project.project)
            engine_before = EngineHealth.read(control, orphans) if engine_asset else None
            transitions = transitions_told(
                control, shown, surface.shown, mapper, context.instance, Cursor.load(context.cursor)
            )
            memory, engine = heal(control, transitions.cursor)
        except DsError as problem:
            reason = f"{problem.message} [{problem.condition}]; {problem.hint}"
            cursor, events = unseen_events(problem, Cursor.load(context.cursor), judged)
            return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=cursor.dump())
        memory = replace(memory, unseen=0)
        many = len(shown) > MANY_RELATIONS
        reporter = Reporter(health, mapper, context.instance, many, control.clock.monotonic, parents)
        report = reporter.report(shown, memory)
        left = f"; {report.left} relations wait for the next tick" if report.left else ""
        looked = watch.tick(kept_of_sources(report.cursor, memory, watch), health.now, control.clock.monotonic)
        troubles = f"; not seen: {', '.join(looked.problems)}" if looked.problems else ""
        summary = f"{engine}; {summary_of(health, orphans)}{left}{troubles}"
        cursor, events = looked.cursor, (*transitions.events, *report.events, *looked.events)
        if engine_before is not None:
            said, of_engine = engine_events(engine_before, engine_key(project), memory.of(engine_path), health.now)
            cursor, events = replace(cursor, said={**cursor.said, engine_path: said}), (*of_engine, *events)
        return dg.SensorResult(asset_events=events, cursor=cursor.dump(), skip_reason=summary)

    return ds_health


def kept_of_sources(reported: Cursor, before: Cursor, watch: SourceWatch) -> Cursor:
    """The cursor of a report, with the entries of entities from the cursor before: a report does not contain them."""
    unreported = {path: said for path, said in before.said.items() if path in watch.paths}
    return replace(reported, said={**reported.said, **unreported})


def heal(control: Control, cursor: Cursor) -> tuple[Cursor, str]:
    """Restart engines that are gone and still needed by the journal.

    An engine that lives but is silent (UNKNOWN) is left alone: a second one is never started.

    Returns:
        The cursor with the count of starts, and a sentence for people.
    """
    needed = control.fleet.needed()
    sentences: list[str] = []
    for engine in control.fleet.statuses(needed):
        cursor, sentence = _heal_one(control, cursor, engine, needed)
        sentences.append(sentence)
    return cursor, "; ".join(sentences)


def _heal_one(control: Control, cursor: Cursor, engine: EngineStatus, needed: frozenset[str]) -> tuple[Cursor, str]:
    name, pool = engine.name, pool_name(engine.name)
    shown = f"engine of {shown_pool(pool)}" if pool else "engine"
    if engine.state in ALIVE:
        calm = cursor if engine.state == "STARTING" else cursor.with_tries(name, 0, 0.0)
        return calm, f"{shown} {engine.state.lower()}" + (f" (pid {engine.pid})" if engine.pid else "")
    if pool not in needed:
        return cursor, "no engine, none needed"
    if engine.state == "UNKNOWN":
        return cursor, f"{shown} does not answer; waiting, a second one is never started"
    now, (starts, next_start) = control.clock.now(), cursor.tries(name)
    if now < next_start <= now + LONGEST_START_DELAY:  # a later time: the clock was set back
        return cursor, f"{shown} is gone, {starts} starts failed, next one in {next_start - now:.0f} s"
    delay = min(START_DELAY * 2**starts, LONGEST_START_DELAY)
    tried = cursor.with_tries(name, starts + 1, now + delay)
    try:
        started = control.ensure_engine(wait=0, pool=pool)
    except DsError as problem:
        return tried, f"{shown} is gone and could not be started: {problem.message} [{problem.condition}]"
    return tried, f"{shown} was gone, started again" + (f" (pid {started.pid})" if started.pid else "")


def summary_of(health: Health, orphans: Sequence[JobStatus]) -> str:
    """One line: how many queries are in which state, the worst lag, and jobs that run without a definition."""
    counts: dict[str, int] = {}
    for status in health.statuses.values():
        counts[status.state.lower()] = counts.get(status.state.lower(), 0) + 1
    parts = [f"{count} {state}" for state, count in sorted(counts.items())] or ["no queries requested yet"]
    lags = [s.lag_seconds for s in health.statuses.values() if s.lag_seconds]
    if lags:
        parts.append(f"worst lag {max(lags):.1f} s")
    if orphans:
        parts.append("orphans (run without a definition): " + ", ".join(orphan.name for orphan in orphans))
    return ", ".join(parts)
