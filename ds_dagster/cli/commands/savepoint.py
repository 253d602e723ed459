"""``ds savepoint`` and ``ds restore``: keep a copy of a query's checkpoint, and continue from it later."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.converging import REQUESTED_BY, WAIT_SECONDS, is_settled, no_job
from ds_dagster.cli.output import LocalFolder, clock, emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.places.trees import Place
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, load_project, store_admin
from ds_dagster.runtime.checkpoint_switch import entry_at
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.changes import recompiled, why_not_over
from ds_dagster.runtime.deciding.restoring import Restoring, SavedState, Surroundings, forking, restoring
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.savepoints import Savepoint, Savepoints, origin_of, put_savepoint, targets_of
from ds_dagster.runtime.sink_ends import adopt, forgotten, sink_ends
from ds_dagster.runtime.status import RESTORED, JobStatus
from ds_dagster.settings import Settings

AT_REST = ("STOPPED", "FAILED", "FINISHED", "ABSENT")
"""States in which no query writes a job's checkpoint."""
SAVEPOINTS = "savepoints"
"""Folder of savepoints below the state folder."""
DOES = {
    "at_sink": "continues after batch {tip}, where its sinks end",
    "after_sink": "reads from batch {tip} up to the end of its sinks without writing, and continues there",
    "again": "continues after batch {tip} and writes the rows of later batches again",
    "fork": "continues after batch {tip} as a separate job",
}
"""``Restoring.how`` → text for people."""


@click.command("savepoint")
@click.argument("query", required=False)
@click.option("--name", default="", help="Name of the savepoint (default: its batch and the time).")
@click.option("--to", "folder", type=LocalFolder(), help="Folder (default: in the state folder).")
@click.option("--list", "lists", is_flag=True, help="List all savepoints, or those of QUERY.")
@click.option("--delete", default="", metavar="NAME", help="Delete a savepoint of QUERY.")
@project_option
@json_option
def savepoint_command(
    query: str | None, name: str, folder: Path | None, lists: bool, delete: str, project: Path | None, as_json: bool
) -> int:
    """Keep a copy of QUERY's state and positions after its last finished batch. The query may run.

    `ds restore` continues from it: after a checkpoint was lost, after a change that went wrong, or in another project.
    """
    settings = settings_of(project, quiet=as_json)
    savepoints = Savepoints(folder or settings.state / SAVEPOINTS)
    control = Control.open(settings)
    if lists:
        _show(savepoints.all() if query is None else savepoints.all_of(query, _job_of(control, query)), as_json)
        return 0
    if query is None:
        raise click.UsageError("savepoint needs the name of a query, or --list")
    if delete:
        savepoints.delete(savepoints.of_job(query, _job_of(control, query), delete))
        return 0
    _show([_taken(settings, control, savepoints, query, name)], as_json)
    return 0


def _taken(settings: Settings, control: Control, savepoints: Savepoints, name: str, savepoint: str) -> Savepoint:
    """A savepoint of the definition that runs, whatever the project's statement is now."""
    running = control.running()
    status = running.status(name)
    if status is None:
        raise no_job(settings, name, running.jobs)
    _check_host(control, name)
    job = running.jobs[name]
    about = Savepoint(
        name="",
        query=name,
        job=_job(control, job.writes_as),
        origin=0,
        version=job.checkpoint_version,
        tip=Tip(0),
        taken=round(control.clock.now(), 3),
        spec=job.spec,
        folder=savepoints.root,
    )
    place = control.checkpoints().path(job.writes_as, job.checkpoint_version)
    _, query = recompiled(JobSpec.from_json(job.spec), settings)
    has_state = any(node.is_stateful for node in query.plan.walk())
    return savepoints.take(savepoint, place, about, has_state=has_state)


@click.command("restore")
@click.argument("query")
@click.argument("savepoint")
@click.option("--from", "folder", type=LocalFolder(), help="Folder (default: in the state folder).")
@click.option(
    "--allow", type=click.Choice(["duplicates"]), help="duplicates: write rows again that streams already have."
)
@click.option("--dry-run", is_flag=True, help="Show how the query would continue.")
@project_option
@json_option
def restore_command(
    query: str,
    savepoint: str,
    folder: Path | None,
    allow: str | None,
    dry_run: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Continue QUERY from a savepoint. Stop the query first; its checkpoint is kept until `ds gc`.

    Rows of later batches stay in the sinks and are not written again: the query reads up to the end of the sinks
    without writing. From a savepoint of another project or environment (`--from`) the query continues as a separate
    query.
    """
    settings = settings_of(project, quiet=as_json)
    loaded, control = load_project(settings.root, settings=settings), Control.open(settings)
    if query not in loaded.queries:
        raise error("JOB_UNKNOWN", name=query, nearest=did_you_mean(query, list(loaded.queries)))
    status = control.status(query)
    savepoints = Savepoints(folder or settings.state / SAVEPOINTS)
    saved = savepoints.of_job(query, _job_of(control, query), savepoint)
    restore = Restore(loaded, control, loaded.queries[query], status, saved)
    decided = restore.decided(may_double=allow is not None)
    does = DOES[decided.how or ""].format(tip=saved.tip.batch)
    after = None if dry_run else restore.carried_out(decided)
    if as_json:
        document = {"name": query, "savepoint": savepoint, "batch": saved.tip.batch, "how": decided.how}
        emit_json({**document, "does": does, "state": after.state if after else None})
    else:
        note(f"{query} {does}" + (f": {after.state.lower()}" if after else ""))
    return 0 if after is None or is_settled(after) or restore.query.is_finite else 1


@dataclass(frozen=True, slots=True)
class Restore:
    """Restores one job from one savepoint."""

    project: LoadedProject
    control: Control
    query: BoundQuery
    status: JobStatus
    savepoint: Savepoint

    def decided(self, *, may_double: bool) -> Restoring:
        """How the job continues.

        Raises:
            UserError: RESTORE_REFUSED, RESTORE_WHILE_RUNNING.
        """
        name = self.query.name
        _check_host(self.control, name)
        is_answered = self.status.reported_generation >= self.status.generation
        if self.status.state not in AT_REST or (self.status.state == "ABSENT" and self.status.desired == "RUNNING"):
            raise error("RESTORE_WHILE_RUNNING", name=name, state=self.status.state.lower())
        if not is_answered and self.status.state != "ABSENT":
            raise error("RESTORE_WHILE_RUNNING", name=name, state="changing")
        self.control.journal.create()
        decided = self._fork() if self._is_fork else self._own(may_double)
        if decided.how == "after_sink" and not self._following(decided):
            lost = "only its former checkpoint had the event time of its sinks' last batch, and that batch is gone"
            decided = Restoring(reason=lost)
        if decided.how is None:
            hint = decided.hint.format(name=name, version=self._version)
            raise error("RESTORE_REFUSED", name=name, savepoint=self.savepoint.name, reason=decided.reason, hint=hint)
        return decided

    def carried_out(self, decided: Restoring) -> JobStatus:
        """Make the checkpoint, record its batch in the sinks' ledgers, start, and wait. May be repeated after a
        kill."""
        name, version = self.query.name, self.status.checkpoint_version + 1
        place = self.control.checkpoints().path(self.status.writes_as, version)
        following = self._following(decided) if decided.how == "after_sink" else ""
        planned = put_savepoint(self.savepoint, place, following, is_fork=decided.how in ("fork", "again"))
        newest = planned if following else self.savepoint.tip
        if decided.how in ("at_sink", "after_sink") and newest is not None:
            adopt(self.project, self.query, self._identity(version), newest)
        (ensured,) = self.control.ensure(
            self.project,
            [name],
            "reset",
            f"{REQUESTED_BY} restore {self.savepoint.name}",
            allow=(RESTORED,),
            made_by=self.savepoint.definition,
        )
        self.control.ensure_engines([name])
        (after,) = self.control.wait([name], {name: ensured.generation}, WAIT_SECONDS)
        return after

    @property
    def _is_fork(self) -> bool:
        return self.savepoint.job != _job(self.control, self.status.writes_as)

    def _identity(self, version: int) -> SinkIdentity:
        return self.control.journal.identity().sink(self.status.writes_as, version)

    @property
    def _place(self) -> Place:
        return self.control.checkpoints().path(self.status.writes_as, self.status.checkpoint_version)

    @property
    def _origin(self) -> int:
        """The checkpoint version in which the history of the job's checkpoint began, also if the checkpoint is lost. A
        checkpoint that a restore made continues the history of the version before it."""
        version, job = self.status.checkpoint_version, self.control.running().jobs.get(self.query.name)
        if not self._place.exists() and version == self.savepoint.version:
            return self.savepoint.origin
        if not self._place.exists() and job is not None and RESTORED in job.begins:
            return origin_of(self.control.checkpoints().path(self.status.writes_as, version - 1), version - 1)
        return origin_of(self._place, version)

    def _own(self, may_double: bool) -> Restoring:
        version, is_same_history = self.status.checkpoint_version, self._origin == self.savepoint.origin
        saved = self._saved(is_same_history and version == self.savepoint.version, is_same_history)
        ends = () if may_double else sink_ends(self.project, self.query, self._identity(version))
        return restoring(self.query, saved, ends, forgotten(self.project, self.query), may_double=may_double)

    def _fork(self) -> Restoring:
        sources = {}
        for scan in self.query.scans:
            now, saved = self._identity_of(scan.relation), self.savepoint.sources.get(scan.source_name, "")
            if now != "" and saved:
                sources[f"{scan.relation.store}.{scan.relation.entity}"] = (now or "", saved)
        targets = {f"{sink.store}.{sink.entity}": self._identity_of(sink) or "" for sink in self.query.sinks}
        there = Surroundings(
            targets,
            sources,
            tuple(targets_of(self._place).values()),
            self.status.batch is not None,
            self._version,
        )
        return forking(self.query, self._saved(False, False), there)

    @property
    def _version(self) -> int | None:
        """Number of the version of the query that made the savepoint; None if no version of the query made it."""
        jobs = (job for job in self.control.running().jobs.values() if job.of == self.query.name)
        return next((job.version for job in jobs if _job(self.control, job.writes_as) == self.savepoint.job), None)

    def _identity_of(self, relation: Relation) -> str | None:
        """Identity of a relation's entity, empty if the store has none; None if the entity does not exist."""
        store = relation.store
        with closing(store_admin(self.project, store, resolver(self.project.settings, store))) as admin:
            facts = admin.describe(relation.entity)
        return None if facts is None else facts.identity

    def _saved(self, is_same_version: bool, is_same_history: bool) -> SavedState:
        saved = self.savepoint
        unfit = why_not_over(self.project, self.query, saved.definition)
        return SavedState(unfit, saved.tip, is_same_version, is_same_history, saved.targets)

    def _following(self, decided: Restoring) -> str:
        """The offset log entry of the batch that ends where the sinks end: from the former checkpoint, which has its
        event time, else from the ledger; empty if neither has all of it."""
        end = decided.end
        assert end is not None
        return entry_at(self._place, end, self.savepoint.checkpoint, self.savepoint.tip.batch)


def _job(control: Control, writes_as: str) -> str:
    return control.journal.identity().job_id(writes_as)


def _job_of(control: Control, query: str) -> str:
    """Identity of the job of a query, in the version that serves; empty without a journal."""
    return _job(control, control.status(query).writes_as) if control.journal.exists() else ""


def _check_host(control: Control, name: str) -> None:
    if not control.sees_checkpoints():
        raise error("SAVEPOINT_REFUSED", name=name, reason="its checkpoint is on the engine's machine: run it there")


def _show(savepoints: list[Savepoint] | tuple[Savepoint, ...], as_json: bool) -> None:
    if as_json:
        fields = ("query", "name", "version", "job", "taken")
        rows = [{name: getattr(saved, name) for name in fields} for saved in savepoints]
        more = [{"batch": s.tip.batch, "bytes": s.size, "folder": str(s.folder)} for s in savepoints]
        emit_json([{**row, **rest} for row, rest in zip(rows, more, strict=True)])
        return
    headers = ("query", "savepoint", "batch", "taken", "MB")
    table(headers, [(s.query, s.name, s.tip.batch, clock(s.taken), f"{s.size / 1e6:.1f}") for s in savepoints])
