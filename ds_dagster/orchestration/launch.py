"""One materialization of streaming assets: request every selected query, wait for all together, report which came
up."""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import dagster as dg

from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.events import PREFIX, difference_metadata, failure_metadata, failure_text, status_metadata
from ds_dagster.orchestration.props import RelationProps, text_of
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.renaming import is_stopped
from ds_dagster.runtime.processes.tail import tail_lines
from ds_dagster.runtime.status import Action, Consent, Ensured, JobStatus, consents
from ds_dagster.runtime.versioning import Versions

LOG_TAIL_LINES = 40
DOWN_STATES = frozenset({"FAILED", "BACKING_OFF", "STOPPED"})
RESTING_STATES = frozenset({"STOPPED", "ABSENT", "FINISHED", "FAILED"})
UP_STATES = frozenset({"RUNNING"})
LaunchAction = Action | Literal["new_version"]
Selected = Mapping[dg.AssetKey, RelationProps]


@dataclass(frozen=True, slots=True)
class LaunchedRelation:
    """A relation in the requested state. ``is_up``: its queries run; ``is_new``: this run started at least one
    query."""

    metadata: Mapping[str, Any]
    is_up: bool
    is_new: bool


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """Metadata about the difference between the new version of a relation and the version that serves."""

    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Launch:
    """Requests and failures of one run.

    Attributes:
        control, project: the project and its control.
        requested_by: requester that the journal's history shows.
        log: gets a line per change of state.
        asked: answers to the requests of this run, by query; an application is requested once.
        taking_over: query → job of the version that must serve before this run ends.
        differences: relation → metadata about the difference of its new version.
        may_differ: a new version may take over even if it differs from the serving version beyond the limits of
            :func:`ds_dagster.questions.upkeep.promotion.check_promotion`.
        is_automatic: an automation condition requested the run, not a person: a query that was stopped on request
            remains stopped.
        declined: queries whose request was refused.
        refused, failed, late: texts of refusals, statuses of failed queries, texts about queries that took too long.
    """

    control: Control
    project: LoadedProject
    requested_by: str
    log: Callable[[str], None]
    is_automatic: bool = False
    may_differ: bool = False
    asked: dict[str, Ensured] = field(default_factory=dict)
    taking_over: dict[str, str] = field(default_factory=dict)
    differences: dict[QualifiedName, Mapping[str, Any]] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    failed: list[JobStatus] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def run(
        self, selected: Selected, action: LaunchAction, timeout: float, allow: Collection[Consent] = ()
    ) -> Iterator[tuple[dg.AssetKey, LaunchedRelation | ComparedVersion]]:
        """Request the queries and wait; yields the relations in the requested state, in the given order (sources
        first), and before them the comparisons of new versions, each before its version takes over.

        Args:
            selected: relations by asset key.
            action: see :class:`~ds_dagster.orchestration.assets.DsRunConfig`.
            timeout: seconds until every query must be up.
            allow: what a reset may do to the sinks.
        """
        left_alone = [props for props in selected.values() if self._is_left_alone(props)]
        for props in selected.values():
            if props not in left_alone:
                self._ask(props, action, allow)
        statuses = (yield from self._wait(selected, timeout, action)) if self.asked else {}
        for key, props in selected.items():
            rests = action == "stop" or props in left_alone
            outcome = self._rest(props, statuses) if rests else self._judge(props, statuses, timeout)
            if outcome is not None:
                yield key, outcome

    def withdraw(self, *, stop: bool = False) -> None:
        """Withdraw requests of this run that have not led to a running query; with ``stop``, stop the queries that this
        run started, too."""
        fresh = {name: e.generation for name, e in self.asked.items() if e.outcome == "requested"}
        if fresh and stop:
            self.control.stop(list(fresh), self.requested_by)
        elif fresh:
            self.control.withdraw(list(fresh), fresh, self.requested_by)
        for name in self.taking_over:
            Versions(self.control, self.requested_by).withdraw(name)

    def failure(self) -> dg.Failure | None:
        """Every query that was refused, failed or did not come up in time; None when all is well."""
        return launch_failure(self.control, self.refused, self.failed, self.late)

    def _ask(self, props: RelationProps, action: LaunchAction, allow: Collection[Consent]) -> None:
        if props.broken is not None and action != "stop":
            self.refused.append(text_of(props.broken.diagnostics))
        for query in props.queries:
            is_gone = query.name not in self.project.queries and action != "stop"
            if is_gone or query.name in self.asked or query.name in self.declined:
                continue
            try:
                self._ask_one(query.name, self._action(props, query.name, action), allow)
            except DsError as problem:
                self.declined.add(query.name)
                self.refused.append(str(problem))

    def _is_left_alone(self, props: RelationProps) -> bool:
        if not self.is_automatic:
            return False
        jobs = self.control.running().jobs
        if not all(is_stopped(self.project, query, jobs) for query in props.queries):
            return False
        names = ", ".join(query.name for query in props.queries)
        self.log(f"{names}: stopped on request, so an automation does not start it")
        return True

    def _action(self, props: RelationProps, name: str, action: LaunchAction) -> LaunchAction:
        """A restart if the relation has ``@automation on_change`` and the changed definition keeps the checkpoint."""
        if action != "ensure" or not props.is_redeployed:
            return action
        (change,) = self.control.changes(self.project, [name])
        return "restart" if change.verdict in ("keeps_checkpoint", "renamed") else action

    def _ask_one(self, name: str, action: LaunchAction, allow: Collection[Consent]) -> None:
        if action == "stop" and self.control.status(name).job_id == "":
            self.log(f"{name}: was never started")
            return
        if action == "new_version":
            if self._takes_over(name):
                return
            action = "ensure"
        (ensured,) = self.control.ensure(
            self.project, [name], action=action, requested_by=self.requested_by, allow=allow
        )
        self.asked[name] = ensured
        self.log(f"{name}: {ensured.outcome}")

    def _takes_over(self, name: str) -> bool:
        """Build the changed definition of a query next to the version that serves; False if the change needs no new
        version."""
        (change,) = self.control.changes(self.project, [name])
        if not change.beside:
            return False
        self.taking_over[name] = Versions(self.control, self.requested_by).stage(self.project, name)
        self.asked[name] = Ensured(name, "nothing", 0)
        self.log(f"{name}: {self.taking_over[name]} is built next to it")
        return True

    def _wait_for_versions(self, selected: Selected, timeout: float) -> Iterator[tuple[dg.AssetKey, ComparedVersion]]:
        """Let the new versions take over, and wait until they serve. If one is refused, or does not take over in time,
        the old version remains and the query counts as refused."""
        from ds_dagster.questions.upkeep.promotion import in_order_of_progress

        versions, end = Versions(self.control, self.requested_by), self.control.clock.monotonic() + timeout

        def left() -> float:
            return max(0.0, end - self.control.clock.monotonic())

        for name in in_order_of_progress(self.control, list(self.taking_over), timeout):
            job = self.taking_over[name]
            with self._refusing(name):
                row = versions.jobs(name).get(job)
                if row is not None and row.role == "staged":  # a command may have promoted it already
                    yield from self._compare(name, selected, left())
                    versions.promote(name, may_break=True)
                    self.log(f"{name}: {job} takes over as soon as it has caught up")
        for name, job in self.taking_over.items():
            if name in self.asked:
                with self._refusing(name):
                    versions.wait_served(name, job, left())
                    self.asked[name] = Ensured(name, "nothing", self.control.status(name).generation)

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        try:
            yield
        except DsError as problem:
            del self.asked[name]
            self.refused.append(str(problem))

    def _compare(self, name: str, selected: Selected, timeout: float) -> Iterator[tuple[dg.AssetKey, ComparedVersion]]:
        """Wait until the staged version of a query has caught up, compare its rows, and refuse it if it differs too
        much. Raises what ``check_promotion`` raises."""
        from ds_dagster.questions.upkeep.difference import difference
        from ds_dagster.questions.upkeep.promotion import check_promotion, wait_caught_up

        wait_caught_up(self.control, name, timeout)
        for key, props in selected.items():
            if props.relation is None or name not in [query.name for query in props.queries]:
                continue
            try:
                metadata = difference_metadata(difference(self.project, props.relation, control=self.control))
            except DsError as problem:
                metadata = {f"{PREFIX}/difference": f"not compared: {problem}"}
            self.differences[props.name] = metadata
            yield key, ComparedVersion(metadata)
        if not self.may_differ:
            check_promotion(self.project, self.control, name, timeout)

    def _wait(
        self, selected: Selected, timeout: float, action: LaunchAction
    ) -> Generator[tuple[dg.AssetKey, ComparedVersion], None, Mapping[str, JobStatus]]:
        if action != "stop":
            self.control.ensure_engines(list(self.asked), timeout)
        elif all(engine.state == "GONE" for engine in self.control.engines()):
            return {}
        yield from self._wait_for_versions(selected, timeout)
        generations = {name: ensured.generation for name, ensured in self.asked.items()}
        lines: dict[str, str] = {}

        def log_change(status: JobStatus) -> None:
            line = f"{status.name}: {status.state}" + (f", {status.message}" if status.message else "")
            if lines.get(status.name) != line:
                self.log(line)
            lines[status.name] = line

        statuses = self.control.wait(list(generations), generations, timeout, log_change)
        return {status.name: status for status in statuses}

    def _judge(
        self, props: RelationProps, statuses: Mapping[str, JobStatus], timeout: float
    ) -> LaunchedRelation | None:
        names = [query.name for query in props.queries]
        chosen = [statuses[name] for name in names if name in statuses]
        down = [status for status in chosen if status.state in DOWN_STATES]
        slow = [status.name for status in chosen if status.state not in DOWN_STATES | UP_STATES]
        self.failed += [status for status in down if status not in self.failed]
        if slow:
            self.late.append(str(error("RELATION_NOT_STARTED", count=len(slow), seconds=int(timeout), names=slow)))
        if down or slow or len(chosen) < len(names) or props.broken is not None:
            return None
        adopted = all(self.asked[name].outcome == "adopted" for name in names)
        metadata = {"ds_dagster/outcome": "adopted" if adopted else "started", **status_metadata(chosen)}
        metadata |= self.differences.get(props.name, {})
        return LaunchedRelation(metadata, is_up=True, is_new=not adopted)

    def _rest(self, props: RelationProps, statuses: Mapping[str, JobStatus]) -> LaunchedRelation | None:
        """A relation whose queries are stopped; None if a request was refused or a query still finishes its batch."""
        names = [query.name for query in props.queries]
        slow = [name for name in names if name in statuses and statuses[name].state not in RESTING_STATES]
        if slow:
            self.late.append(str(error("RELATION_NOT_STOPPED", count=len(slow), names=slow)))
        if slow or any(name in self.declined for name in names):
            return None
        return LaunchedRelation({"ds_dagster/outcome": "stopped"}, is_up=False, is_new=False)


def launch_failure(
    control: Control, refused: Sequence[str], failed: Sequence[JobStatus], late: Sequence[str]
) -> dg.Failure | None:
    """The failure of a step that requested queries, with the ends of their logs; None when all is well. See
    :class:`Launch` for the arguments."""
    texts = [*refused, *map(failure_text, failed), *dict.fromkeys(late)]
    if not texts:
        return None
    tails = [(s.name, "\n".join(tail_lines(control.log_path(s.name), LOG_TAIL_LINES))) for s in failed]
    metadata = failure_metadata(failed, [(name, text) for name, text in tails if text])
    return dg.Failure(description="\n".join(texts), metadata=metadata, allow_retries=False)


class ResetConfig(dg.Config):
    """What a reset may do.

    ``allow_duplicates``: write rows that a sink already has. ``from_now``: skip everything that is in the sources when
    the query starts; the state begins empty, so no earlier row is in a new result. ``empty``: first delete the rows of
    topics that nobody else writes or has read.
    """

    allow_duplicates: bool = False
    from_now: bool = False
    empty: bool = False

    def consents(self) -> tuple[Consent, ...]:
        """For ``Control.ensure``."""
        return consents(duplicates=self.allow_duplicates, from_now=self.from_now, empty=self.empty)


class ActionConfig(ResetConfig):
    """What a reset or a restart may do.

    ``allow_partial``: a restart may keep the state although results of an aggregate are added; in groups that exist
    they count only the rows since the change.
    """

    allow_partial: bool = False

    def consents(self) -> tuple[Consent, ...]:
        """For ``Control.ensure``."""
        return (*super().consents(), *consents(partial=self.allow_partial))
