"""What the health sensor tells Dagster: changes at once, the rest on a slow beat. Pure but for reading the last
materialization."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from ds_dagster.orchestration.checks import Health, Verdict, check_metadata, check_names
from ds_dagster.orchestration.cursor import Cursor, Said
from ds_dagster.orchestration.events import status_metadata
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator, freshness_seconds
from ds_dagster.runtime.status import JobStatus

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
OBSERVE_SECONDS = 300.0
HEARTBEAT_SECONDS = 300.0
CHECK_SECONDS = 900.0
AFTER_RUN_SECONDS = 2.0
"""Dagster shows a check's result only when it is newer than the last materialization, in whole seconds, and takes the
result whose run was planned last: so checks are told once more after every materialization by a run."""

MANY_RELATIONS = 50
"""Above this many relations observations and heartbeats come a third as often: a runless event costs about 8 kB and
Dagster keeps it for ever."""

BUDGET_SECONDS = 25.0
"""A tick that took so long ends; what was not said is due in the next one."""


@dataclass(frozen=True, slots=True)
class Report:
    """What to tell, the new memory, and how many relations have to wait for the next tick."""

    events: tuple[Event, ...]
    cursor: Cursor
    left: int = 0


@dataclass(slots=True)
class Reporter:
    """One tick.

    Attributes:
        health: of this moment.
        translator: gives asset keys.
        instance: where the last materializations are.
        many: whether beats are slowed.
        monotonic: for the tick's budget, seconds.
    """

    health: Health
    translator: DsTranslator
    instance: dg.DagsterInstance
    many: bool
    monotonic: Callable[[], float]
    _last: Mapping[dg.AssetKey, dg.EventLogEntry] = field(default_factory=dict)

    def report(self, relations: Sequence[RelationProps], cursor: Cursor) -> Report:
        """Everything that is worth saying now; relations that waited longest come first when time is short."""
        keyed = {"/".join(self.translator.get_asset_key(props.name).path): props for props in relations}
        said = {path: found for path, found in cursor.said.items() if path in keyed}
        waiting = sorted(keyed, key=lambda path: cursor.of(path).checked)
        events: list[Event] = []
        end = self.monotonic() + BUDGET_SECONDS
        self._last = self._materializations(relations)
        for done, path in enumerate(waiting):
            if self.monotonic() >= end:
                return Report(tuple(events), replace(cursor, said=said), len(waiting) - done)
            known, more = self._of(keyed[path], cursor.of(path))
            said |= {path: known} if known != Said() else {}
            events += more
        return Report(tuple(events), replace(cursor, said=said))

    def _of(self, props: RelationProps, said: Said) -> tuple[Said, list[Event]]:
        found = self.health.of(props)
        if not found and props.broken is None:
            return said, []
        key = self.translator.get_asset_key(props.name)
        said, events = self._figures(key, props, found, said)
        said, checks = self._checks(key, props, found, said)
        return said, [*events, *checks]

    def _figures(
        self, key: dg.AssetKey, props: RelationProps, found: Sequence[JobStatus], said: Said
    ) -> tuple[Said, list[Event]]:
        """A heartbeat when rows came since the last one, else an observation when anything moved."""
        now = self.health.now
        position = "|".join(f"{status.incarnation}:{status.batch}" for status in found)
        rows = "|".join(str(status.progressed) for status in found)
        if position == said.position or all(status.batch is None for status in found):
            return said, []
        has_rows = rows != said.rows and any(status.progressed for status in found)
        if has_rows and now - said.beat >= self._beat_seconds(props):
            changed = replace(said, beat=now, observed=now, position=position, rows=rows)
            return changed, [self._heartbeat(key, found)]
        if now - said.observed >= OBSERVE_SECONDS * self._slow:
            observation = dg.AssetObservation(key, metadata=status_metadata(found))
            return replace(said, observed=now, position=position), [observation]
        return said, []

    def _checks(
        self, key: dg.AssetKey, props: RelationProps, found: Sequence[JobStatus], said: Said
    ) -> tuple[Said, list[Event]]:
        """Verdicts that changed; all of them now and then; none about a query that is about to run."""
        now = self.health.now
        last = self._last.get(key)
        made = last.timestamp if last is not None and last.run_id else said.run
        verdicts = {name: self.health.verdict(name, props) for name in check_names(props)}
        if any(status.state == "STARTING" for status in found) and verdicts["running"].passed:
            return said, []
        all_due = now - said.checked >= CHECK_SECONDS or said.checked <= made + AFTER_RUN_SECONDS
        due = [name for name, verdict in verdicts.items() if all_due or said.verdicts.get(name) != verdict.mark]
        marks = {name: verdict.mark for name, verdict in verdicts.items()}
        events: list[Event] = [_check(key, name, verdicts[name], found) for name in due]
        return replace(said, verdicts=marks, checked=now if all_due else said.checked, run=made), events

    def _heartbeat(self, key: dg.AssetKey, found: Sequence[JobStatus]) -> dg.AssetMaterialization:
        """Data advanced. The ``dagster/`` tags of the last materialization are copied: without them everything
        downstream turns stale."""
        last = self._last.get(key)
        kept: Mapping[str, str] = (last.asset_materialization.tags or {}) if last and last.asset_materialization else {}
        tags = {name: value for name, value in kept.items() if name.startswith("dagster/")}
        return dg.AssetMaterialization(key, metadata=status_metadata(found), tags=tags)

    def _materializations(self, relations: Sequence[RelationProps]) -> Mapping[dg.AssetKey, dg.EventLogEntry]:
        """The last materialization of every relation with a job, in one look."""
        keys = [self.translator.get_asset_key(props.name) for props in relations if self.health.of(props)]
        entries = [record.asset_entry for record in self.instance.get_asset_records(keys)] if keys else []
        return {entry.asset_key: entry.last_materialization for entry in entries if entry.last_materialization}

    def _beat_seconds(self, props: RelationProps) -> float:
        """Often enough for the relation's freshness policy."""
        window = freshness_seconds(props)
        return HEARTBEAT_SECONDS * self._slow if window is None else min(HEARTBEAT_SECONDS * self._slow, window / 3)

    @property
    def _slow(self) -> float:
        return 3.0 if self.many else 1.0


def _check(key: dg.AssetKey, name: str, verdict: Verdict, found: Sequence[JobStatus]) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata=check_metadata(verdict, found),
        description=verdict.reason,
    )
