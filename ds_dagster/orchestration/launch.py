"""One materialization of streaming assets: ask for every selected query, wait for all of them together, tell who came up."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from ds_dagster.errors import DsError, error
from ds_dagster.orchestration.events import failure_metadata, status_metadata
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.project import Project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import Action, Ensured, JobStatus
from ds_dagster.runtime.tail import tail_lines

LOG_TAIL_LINES = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """A relation that is as it was asked to be."""

    metadata: Mapping[str, Any]


@dataclass
class Launch:
    """Requests and failures of one run. ``log`` gets a line per state change."""

    control: Control
    project: Project
    requested_by: str
    log: Callable[[str], None]
    asked: dict[str, Ensured] = field(default_factory=dict)
    refused: list[DsError] = field(default_factory=list)
    failed: list[JobStatus] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def run(
        self, selected: Mapping[dg.AssetKey, RelationProps], action: Action, timeout: float
    ) -> Iterator[tuple[dg.AssetKey, Outcome]]:
        """Ask and wait; yields the relations that came up, sources first."""
        for props in selected.values():
            self._ask(props, action)
        if action == "stop":
            yield from ((key, Outcome({"ds_dagster/outcome": "stopped"})) for key in selected)
            return
        if self.asked:
            self.control.ensure_engine()
        generations = {name: ensured.generation for name, ensured in self.asked.items()}
        found = self.control.wait(list(generations), generations, timeout, lambda s: self.log(f"{s.name}: {s.state}"))
        statuses = {status.name: status for status in found}
        for key, props in selected.items():
            outcome = self._judge(props, statuses, timeout)
            if outcome is not None:
                yield key, outcome

    def withdraw(self) -> None:
        """Cancel launches of this run that are not confirmed yet."""
        fresh = {name: e.generation for name, e in self.asked.items() if e.outcome == "requested"}
        if fresh:
            self.control.withdraw(list(fresh), fresh, self.requested_by)

    def raise_failures(self) -> None:
        """Raises: dg.Failure with every query that was refused, failed or did not come up in time."""
        if not (self.refused or self.failed or self.late):
            return
        tails = [(status.name, "\n".join(tail_lines(self.control.log_path(status.name), LOG_TAIL_LINES))) for status in self.failed]
        texts = [str(problem) for problem in self.refused]
        texts += [f"{s.name}: {s.message} [{s.condition}]" + (f"\n  hint: {s.hint}" if s.hint else "") for s in self.failed]
        texts += self.late
        metadata = failure_metadata(self.failed, tails) if self.failed else {}
        raise dg.Failure(description="\n".join(texts), metadata=metadata, allow_retries=False)

    def _ask(self, props: RelationProps, action: Action) -> None:
        names = [query.name for query in props.queries]
        for name in names:
            try:
                (ensured,) = self.control.ensure(self.project, [name], action=action, requested_by=self.requested_by)
            except DsError as problem:
                self.refused.append(problem)
            else:
                self.asked[name] = ensured
                self.log(f"{name}: {ensured.outcome}")

    def _judge(self, props: RelationProps, statuses: Mapping[str, JobStatus], timeout: float) -> Outcome | None:
        names = [query.name for query in props.queries]
        if any(name not in self.asked for name in names):
            return None
        found = [statuses[name] for name in names if name in statuses]
        bad = [status for status in found if status.state in ("FAILED", "BACKING_OFF", "STOPPED")]
        slow = [name for name in names if name not in statuses or statuses[name].state in ("ABSENT", "STARTING", "UNKNOWN", "STOPPING")]
        self.failed += bad
        if slow:
            self.late.append(str(error("RELATION_NOT_STARTED", count=len(slow), seconds=int(timeout), names=slow)))
        if bad or slow:
            return None
        adopted = all(self.asked[name].outcome == "adopted" for name in names)
        return Outcome({"ds_dagster/outcome": "adopted" if adopted else "started", **status_metadata(found)})
