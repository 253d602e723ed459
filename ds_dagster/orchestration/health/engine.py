"""The engine as an asset: whether it lives, where, since when, its starts, and jobs without a definition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from ds_dagster.errors import DsError
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import PREFIX, failure_of, log_link, timestamp
from ds_dagster.orchestration.health.cursor import Said
from ds_dagster.orchestration.health.report import Event
from ds_dagster.orchestration.health.verdict import ERROR, WARN, Verdict, check_result, evaluation
from ds_dagster.orchestration.resources import CONTROL_KEY, control_resource
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.processes.liveness import pool_name
from ds_dagster.runtime.status import EngineStatus, JobStatus

ENGINE_NAME = "ds_engine"
CHECKS = {
    "up": "The engine lives, or none is needed.",
    "orphans": "Every job that runs has a definition in the project.",
}
AGAIN_SECONDS = 900.0
"""Seconds after which unchanged verdicts are written again."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """The engine at one moment; with compute pools all engines.

    Attributes:
        status: of the engine, or of the last one if none runs.
        is_needed: a job should run, or a load was requested.
        orphans: names of jobs that run without a definition.
        log: where its log is read: a path on its machine, or an address.
        others: engines of compute pools, each without orphans and others.
    """

    status: EngineStatus
    is_needed: bool
    orphans: Sequence[str]
    log: str
    others: Sequence["EngineHealth"] = ()

    @classmethod
    def read(cls, control: Control, orphans: Sequence[JobStatus]) -> "EngineHealth":
        """Read the journal. ``orphans``: jobs without a definition in the project."""
        needed = control.fleet.needed()
        first, *others = (
            cls(engine, pool_name(engine.name) in needed, (), control.log_place(engine=engine.name))
            for engine in control.fleet.statuses(needed)
        )
        return replace(first, orphans=tuple(orphan.name for orphan in orphans), others=tuple(others))

    @property
    def mark(self) -> str:
        """A text that changes whenever a new observation is due."""
        status, others = self.status, (other.mark for other in self.others)
        own = (status.state, str(status.pid), str(status.started), str(self.is_needed), *self.orphans)
        return "|".join((*own, *others))

    def verdict(self, name: str) -> Verdict:
        """The verdict of one of :data:`CHECKS`."""
        return self._orphans() if name == "orphans" else self._up()

    def metadata(self) -> dict[str, Any]:
        """Metadata of an observation: first state, start and host, then the rest; without empty values."""
        status = self.status
        values: dict[str, Any] = {
            "state": status.state,
            "started": None if status.started is None else timestamp(status.started),
            "host": status.host,
            "pid": status.pid,
            "orphans": ", ".join(self.orphans),
            "version": status.version,
            "log": log_link(self.log),
            "condition": status.condition,
            "message": status.message,
        }
        values |= {f"engine/{engine.status.name}": engine._one_up().reason for engine in self._all() if self.others}
        return {f"{PREFIX}/{name}": value for name, value in values.items() if value not in (None, "")}

    def _all(self) -> Sequence["EngineHealth"]:
        return (self, *self.others)

    def _up(self) -> Verdict:
        """The engine's verdict; with several engines, the worst severity and the reason of each engine."""
        if not self.others:
            return self._one_up()
        verdicts = {engine.status.name: engine._one_up() for engine in self._all()}
        failed = [verdict for verdict in verdicts.values() if not verdict.passed]
        worst = next((verdict for verdict in failed if verdict.severity == ERROR), next(iter(failed), None))
        reason = "; ".join(f"{name}: {verdict.reason}" for name, verdict in verdicts.items())
        mark = ",".join(verdict.mark for verdict in verdicts.values())
        return Verdict(not failed, reason, ERROR if worst is None else worst.severity, mark)

    def _one_up(self) -> Verdict:
        status = self.status
        where = f"pid {status.pid} on {status.host}" if status.pid else "no process"
        if status.state == "RUNNING":
            return Verdict(True, f"running: {where}")
        if status.state in ("STARTING", "STOPPING"):
            return Verdict(False, f"{status.state.lower()}: {where}", WARN, status.state)
        if status.state == "GONE" and not self.is_needed:
            return Verdict(True, "no engine, none needed")
        reason = "it is gone" if status.state == "GONE" else f"it does not answer: {where}"
        return Verdict(False, f"{reason}. {status.message}".strip(" ."), ERROR, f"{status.state} {status.condition}")

    def _orphans(self) -> Verdict:
        if not self.orphans:
            return Verdict(True, "none", WARN)
        reason = f"run without a definition: {', '.join(self.orphans)}; ds apply --prune stops them"
        return Verdict(False, reason, WARN, ",".join(self.orphans))


def engine_events(engine: EngineHealth, key: dg.AssetKey, said: Said, now: float) -> tuple[Said, tuple[Event, ...]]:
    """The new memory, and the events on the engine: an observation if something changed, and changed verdicts, or all
    verdicts every 15 minutes."""
    has_changed, all_due = engine.mark != said.position, now - said.checked >= AGAIN_SECONDS
    verdicts = {name: engine.verdict(name) for name in CHECKS}
    marks = {name: verdict.mark for name, verdict in verdicts.items()}
    due = [name for name in CHECKS if all_due or said.verdicts.get(name) != marks[name]]
    events: list[Event] = []
    if has_changed:
        events.append(dg.AssetObservation(key, description=verdicts["up"].reason, metadata=engine.metadata()))
    events += [evaluation(key, name, verdicts[name], engine.metadata()) for name in due]
    checked = now if all_due else said.checked
    return replace(said, position=engine.mark, verdicts=marks, checked=checked), tuple(events)


def engine_key(project: DsProject) -> dg.AssetKey:
    """The key of the engine's asset."""
    return dg.AssetKey([*project.key_prefix, project.named(ENGINE_NAME)])


def build_engine_asset(project: DsProject) -> dg.AssetSpec:
    """The asset: observed by the health sensor, never materialized."""
    return dg.AssetSpec(
        engine_key(project),
        description="The process that runs the streaming queries. The health sensor starts it again when it is gone.",
        group_name="ds",
        kinds={"spark"},
    )


def build_engine_checks(project: DsProject) -> dg.AssetChecksDefinition:
    """The runnable bodies of the engine's checks."""
    key = engine_key(project)

    @dg.multi_asset_check(
        name=project.named("ds_engine_checks"),
        specs=[dg.AssetCheckSpec(name, asset=key, description=text) for name, text in CHECKS.items()],
        can_subset=True,
        description="Health of the engine.",
        required_resource_keys={project.named(CONTROL_KEY)},
    )
    def ds_engine_checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        try:
            control = control_resource(context, project).control(project)
            engine = EngineHealth.read(control, control.orphans(project.project))
        except DsError as problem:
            raise failure_of(problem) from problem
        for check in sorted(context.selected_asset_check_keys, key=lambda check: check.name):
            yield check_result(check, engine.verdict(check.name), engine.metadata())

    return ds_engine_checks
