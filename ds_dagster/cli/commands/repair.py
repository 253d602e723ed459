"""``ds repair``: shows ways to repair a job whose checkpoint and sink disagree, and carries out the exact ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.cli.converging import WAIT_SECONDS, is_settled
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.places.trees import Place
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.checkpoint_files import put_checkpoint
from ds_dagster.runtime.checkpoint_log import kept_batches, rewind_checkpoint
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.from_sink import FromSink, from_sink, needs_its_checkpoint
from ds_dagster.runtime.deciding.repair import GOES_ON, RESET, Way, ways
from ds_dagster.runtime.sink_ends import forgotten, renumber, sink_ends
from ds_dagster.runtime.status import Action, JobStatus

ENDED = ("FAILED", "STOPPED")
"""States in which no query writes a job's checkpoint."""


@click.command("repair")
@click.argument("job")
@click.option("--from-sink", "goes_on", is_flag=True, help="Resume after the last batch that the sink has.")
@click.option("--reset", "does_reset", is_flag=True, help="Reset the job, if its rows are exact afterwards.")
@project_option
@json_option
def repair_command(job: str, goes_on: bool, does_reset: bool, project: Path | None, as_json: bool) -> int:
    """Show how to repair JOB when its checkpoint and its sink disagree, or one of them is gone."""
    settings = settings_of(project, quiet=as_json)
    if goes_on and does_reset:
        raise click.UsageError("--from-sink and --reset are two ways; take one")
    loaded, control = load_project(settings.root, settings=settings), Control.open(settings)
    if job not in loaded.queries:
        raise error("JOB_UNKNOWN", name=job, nearest=did_you_mean(job, list(loaded.queries)))
    repair = Repair(loaded, control, loaded.queries[job], control.status(job))
    after = repair.go_on() if goes_on else repair.reset() if does_reset else None
    _show(repair.status, repair.ways, after, as_json)
    return 0 if after is None or is_settled(after) or repair.query.is_finite else 1


@dataclass(slots=True)
class Repair:
    """The ways to repair one job.

    Attributes:
        project, control, query, status: of the job.
        sink: whether it can continue from its sinks; None if its state or condition does not allow that.
        ways: all ways.
    """

    project: LoadedProject
    control: Control
    query: BoundQuery
    status: JobStatus
    sink: FromSink | None = field(init=False)
    ways: tuple[Way, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.sink = self._from_sink()
        self.ways = ways(self.status, self.query, self.sink)

    def reset(self) -> JobStatus:
        """Reset the job, and wait for it.

        Raises:
            UserError: REPAIR_NOT_EXACT.
        """
        name, way_of = self.query.name, {way.name: way for way in self.ways}
        if RESET not in way_of or not way_of[RESET].exact:
            reason = way_of[RESET].does if way_of else self._no_reason
            raise error("REPAIR_NOT_EXACT", name=name, state=self.status.state.lower(), reason=reason)
        return self._asked("reset")

    def go_on(self) -> JobStatus:
        """Make a checkpoint that ends where the sinks end, and start from it; a finite query continues with its next
        run.

        Raises:
            UserError: REPAIR_FROM_SINK_REFUSED.
        """
        name, sink = self.query.name, self.sink
        if sink is None or sink.tip is None:
            raise error("REPAIR_FROM_SINK_REFUSED", name=name, reason=sink.reason if sink else self._no_reason)
        if sink.renumbered:
            renumber(self.project, self.query, self._identity, sink.renumbered, sink.tip)
        if sink.rewinds:
            rewind_checkpoint(self._checkpoint, sink.tip, sink.following)
        else:
            put_checkpoint(self._checkpoint, sink.tip, sink.following, named=not self.query.is_application)
        return self.control.status(name) if self.query.is_finite else self._asked("restart")

    @property
    def _no_reason(self) -> str:
        return self.status.message or "its sink and checkpoint agree"

    @property
    def _checkpoint(self) -> Place:
        return self.control.checkpoints().path(self.status.writes_as, self.status.checkpoint_version)

    @property
    def _identity(self) -> SinkIdentity:
        return self.control.journal.identity().sink(self.status.writes_as, self.status.checkpoint_version)

    def _from_sink(self) -> FromSink | None:
        is_answered = self.status.reported_generation >= self.status.generation
        if self.status.state not in ENDED or self.status.condition not in GOES_ON or not is_answered:
            return None
        reason = needs_its_checkpoint(self.query)
        if not reason and not self.control.sees_checkpoints():
            reason = "its checkpoint is on the engine's machine: run it there"
        if reason:
            return FromSink(reason=reason)
        ends = sink_ends(self.project, self.query, self._identity)
        return from_sink(self.query, ends, kept_batches(self._checkpoint), forgotten(self.project, self.query))

    def _asked(self, action: Action) -> JobStatus:
        """Request an action, and wait; returns the job's status after the engine has answered."""
        name, by = self.query.name, f"ds repair ({self.status.condition})"
        (ensured,) = self.control.ensure(self.project, [name], action=action, requested_by=by)
        self.control.ensure_engines([name])
        (after,) = self.control.wait([name], {name: ensured.generation}, WAIT_SECONDS)
        return after


def _show(status: JobStatus, possible: tuple[Way, ...], after: JobStatus | None, as_json: bool) -> None:
    if as_json:
        shown = {name: getattr(status, name) for name in ("name", "state", "condition", "message")}
        emit_json({**shown, "ways": [asdict(way) for way in possible], "after": after.state if after else None})
        return
    if after is not None:
        note(f"{after.name}: {after.state.lower()}")
    elif not possible:
        note(f"{status.name} is {status.state.lower()}: nothing to repair between its checkpoint and its sink")
    else:
        note(f"{status.name} is {status.state.lower()}: {status.message} [{status.condition}]")
        rows = [(way.name, "yes" if way.exact else "no", way.does, way.command) for way in possible]
        table(["way", "exact", "does", "then"], rows)
