"""The events of the health sensor: changes at once, everything else at intervals. Pure, except that it reads assets
and runs from Dagster's instance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.storage.event_log.base import AssetEntry

from ds_dagster.orchestration.events import status_metadata
from ds_dagster.orchestration.health.checks import Health, are_running, check_metadata, check_names
from ds_dagster.orchestration.health.cursor import Cursor, Said
from ds_dagster.orchestration.health.freshness import FOLLOWED, freshness, moment
from ds_dagster.orchestration.health.verdict import WARN, evaluation
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.status import JobStatus
from ds_dagster.sql.annotations import Freshness

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
OBSERVE_SECONDS = 300.0
HEARTBEAT_SECONDS = 300.0
CHECK_SECONDS = 900.0
AFTER_RUN_SECONDS = 2.0
"""A run that plans an asset plans its checks, and checks it does not execute hide earlier results. Dagster shows a
check's result only when it is newer than the last materialization, in whole seconds: so the checks are written once
more, this long after the end of every run."""

MANY_RELATIONS = 50
"""Above this many relations, observations and heartbeats come a third as often: a runless event takes about 8 kB, and
Dagster never deletes it."""

BUDGET_SECONDS = 25.0
"""A tick ends after this time; the remaining relations are reported in the next tick."""


@dataclass(frozen=True, slots=True)
class Report:
    """Events, the new cursor, and how many relations have to wait for the next tick."""

    events: tuple[Event, ...]
    cursor: Cursor
    left: int = 0


@dataclass(slots=True)
class Reporter:
    """One tick.

    Attributes:
        health: of this moment.
        translator: gives asset keys.
        instance: has the last materializations and runs.
        many: whether there are more than :data:`MANY_RELATIONS`.
        monotonic: clock for the tick's budget, seconds.
        parents: asset → the assets its spec depends on.
    """

    health: Health
    translator: DsTranslator
    instance: dg.DagsterInstance
    many: bool
    monotonic: Callable[[], float]
    parents: Mapping[dg.AssetKey, Sequence[dg.AssetKey]] = field(default_factory=dict)
    _entries: Mapping[dg.AssetKey, AssetEntry] = field(default_factory=dict, init=False)
    _over: frozenset[str] = field(default=frozenset(), init=False)
    _versions: dict[dg.AssetKey, Mapping[str, str]] = field(default_factory=dict, init=False)

    def report(self, relations: Sequence[RelationProps], cursor: Cursor) -> Report:
        """Everything that is due now; relations that waited longest come first, in case time runs out."""
        keyed = {self._path(props): props for props in relations}
        said = {path: text for path, text in cursor.said.items() if path in keyed}
        waiting = sorted(keyed, key=lambda path: cursor.of(path).checked)
        events: list[Event] = []
        end = self.monotonic() + BUDGET_SECONDS
        self._entries = self._asset_entries(relations)
        self._over = self._runs_over(cursor)
        for done, path in enumerate(waiting):
            if self.monotonic() >= end:
                return Report(tuple(events), replace(cursor, said=said), len(waiting) - done)
            updated, more = self._of(keyed[path], cursor.of(path))
            said |= {path: updated} if updated != Said() else {}
            events += more
        return Report(tuple(events), replace(cursor, said=said))

    def _of(self, props: RelationProps, said: Said) -> tuple[Said, list[Event]]:
        statuses = self.health.of(props)
        is_checked = is_checked_source(props) and self.health.checking(props)
        if not statuses and not props.mistakes and not is_checked and not said.verdicts:
            return said, []
        key = self.translator.get_asset_key(props.name)
        said, events = self._figures(key, props, statuses, said)
        said, checks = self._checks(key, props, statuses, said)
        return said, [*events, *checks]

    def _path(self, props: RelationProps) -> str:
        """Key of a relation in the cursor. A source has another entry there, written by ``SourceWatch``, so its checks
        have a key of their own."""
        path = "/".join(self.translator.get_asset_key(props.name).path)
        return f"{path}#checks" if is_checked_source(props) else path

    def _figures(
        self, key: dg.AssetKey, props: RelationProps, statuses: Sequence[JobStatus], said: Said
    ) -> tuple[Said, list[Event]]:
        """A heartbeat if new data came since the last one, else an observation if a batch has run. Nothing for a query
        that does not run: its figures are from an incarnation that ended."""
        now, wanted = self.health.now, freshness(props)
        follows = wanted.source if wanted else "rows"
        has_batches = any(status.batch is not None for status in statuses) or follows == "heartbeat"
        if not statuses or not has_batches or not are_running(statuses):
            return said, []
        position = "|".join(f"{status.incarnation}:{status.batch}" for status in statuses)
        rows = "|".join(str(FOLLOWED[follows].of(status)) for status in statuses)
        has_moved = follows == "heartbeat" or (rows != said.rows and self._is_new(statuses, wanted))
        if has_moved and now - said.beat >= self._beat_seconds(props):
            changed = replace(said, beat=now, observed=now, position=position, rows=rows)
            return changed, [self._heartbeat(key, statuses)]
        if position != said.position and now - said.observed >= OBSERVE_SECONDS * self._slow:
            observation = dg.AssetObservation(key, metadata=status_metadata(statuses))
            return replace(said, observed=now, position=position), [observation]
        return said, []

    def _checks(
        self, key: dg.AssetKey, props: RelationProps, statuses: Sequence[JobStatus], said: Said
    ) -> tuple[Said, list[Event]]:
        """Changed verdicts; all verdicts every 15 minutes and after every run; none during a query's first start, which
        the run that starts it reports."""
        now, run = self.health.now, self._run_of(key, said)
        verdicts = {name: self.health.verdict(name, props) for name in check_names(props, self.translator)}
        is_starting = any(status.state == "STARTING" for status in statuses)
        running = verdicts.get("running")  # a translator may leave it out, loads have none
        if is_starting and not said.verdicts and running is not None and running.severity is WARN:
            return replace(said, run=run), []
        is_after_run = run != said.settled and run in self._over
        all_due = is_after_run or now - said.checked >= CHECK_SECONDS
        due = [name for name, verdict in verdicts.items() if all_due or said.verdicts.get(name) != verdict.mark]
        marks = {name: verdict.mark for name, verdict in verdicts.items()}
        events: list[Event] = [
            evaluation(key, name, verdicts[name], check_metadata(verdicts[name], statuses)) for name in due
        ]
        checked, settled = (now if all_due else said.checked), (run if is_after_run else said.settled)
        return replace(said, verdicts=marks, checked=checked, run=run, settled=settled), events

    def _heartbeat(self, key: dg.AssetKey, statuses: Sequence[JobStatus]) -> dg.AssetMaterialization:
        """A materialization: data advanced. It copies the ``dagster/`` tags of the last materialization, since without
        them everything downstream turns stale, but has the current versions of its inputs, which a running query
        reads."""
        entry = self._entries.get(key)
        last = entry.last_materialization if entry else None
        materialization = last.asset_materialization if last else None
        tags_then: Mapping[str, str] = materialization.tags or {} if materialization else {}
        tags = {name: value for name, value in tags_then.items() if name.startswith("dagster/")}
        if CODE_VERSION_TAG in tags:
            for parent in self.parents.get(key, ()):
                tags |= self._version_tags(parent)
        return dg.AssetMaterialization(key, metadata=status_metadata(statuses), tags=tags)

    def _version_tags(self, parent: dg.AssetKey) -> Mapping[str, str]:
        """The data version of an input as Dagster writes it down; empty while it has none."""
        if parent not in self._versions:
            record = self.instance.get_latest_data_version_record(parent)
            self._versions[parent] = {} if record is None else input_version_tags(parent, record)
        return self._versions[parent]

    def _asset_entries(self, relations: Sequence[RelationProps]) -> Mapping[dg.AssetKey, AssetEntry]:
        """Dagster's entries of all relations with a job, in one query."""
        keys = [self.translator.get_asset_key(props.name) for props in relations if self.health.of(props)]
        records = self.instance.get_asset_records(keys) if keys else []
        return {record.asset_entry.asset_key: record.asset_entry for record in records}

    def _run_of(self, key: dg.AssetKey, said: Said) -> str:
        """The run that planned an asset last. A heartbeat wipes it from Dagster's entry, so it is remembered."""
        entry = self._entries.get(key)
        return (entry.last_run_id if entry else "") or said.run

    def _runs_over(self, cursor: Cursor) -> frozenset[str]:
        """Runs that ended at least :data:`AFTER_RUN_SECONDS` ago and whose checks have to be written again. A run that
        Dagster no longer has counts as ended."""
        keys = {"/".join(key.path): key for key in self._entries}
        said = {path: cursor.of(path) for path in keys}
        runs = {path: self._run_of(key, said[path]) for path, key in keys.items()}
        wanted = {run for path, run in runs.items() if run and run != said[path].settled}
        if not wanted:
            return frozenset()
        records = self.instance.get_run_records(dg.RunsFilter(run_ids=sorted(wanted)))
        over = {r.dagster_run.run_id for r in records if r.dagster_run.is_finished and self._is_past(r.end_time)}
        return frozenset(over | wanted.difference(r.dagster_run.run_id for r in records))

    def _is_past(self, end: float | None) -> bool:
        return end is None or self.health.now - end >= AFTER_RUN_SECONDS

    def _is_new(self, statuses: Sequence[JobStatus], wanted: Freshness | None) -> bool:
        """Whether there is data and, if freshness follows the watermark, whether it is new enough: during a backfill of
        old data it is not."""
        newest = moment(statuses, wanted.source if wanted else "rows")
        if newest is None or wanted is None or wanted.source != "watermark":
            return newest is not None
        return self.health.now - newest <= wanted.seconds

    def _beat_seconds(self, props: RelationProps) -> float:
        """Seconds between two heartbeats: at most a third of the relation's freshness window."""
        wanted, usual = freshness(props), HEARTBEAT_SECONDS * self._slow
        return usual if wanted is None else min(usual, wanted.seconds / 3)

    @property
    def _slow(self) -> float:
        return 3.0 if self.many else 1.0


def is_checked_source(props: RelationProps) -> bool:
    """Whether a relation is a source with constraints, which the queries that read it check."""
    return not props.is_executable and bool(props.constraint_checks)


def input_version_tags(parent: dg.AssetKey, record: dg.EventLogRecord) -> Mapping[str, str]:
    """Tags with the version of an input that a materialization was made from, and the event that reported it."""
    version = extract_data_version_from_entry(record.event_log_entry) or DEFAULT_DATA_VERSION
    return {
        get_input_data_version_tag(parent): version.value,
        get_input_event_pointer_tag(parent): str(record.storage_id),
    }
