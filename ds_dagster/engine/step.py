"""A finite run in the caller's Spark session (a Dagster step with ``'execution'='step'``), without an engine.

The run is in the journal like any other, in its own state (STEP), which engines ignore. The step extends the run's
deadline while it works. If the step dies, the deadline passes and the next step continues from the checkpoint.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from ds_dagster.catalog.reading.skip import skips_of
from ds_dagster.clock import Clock
from ds_dagster.engine.growth import rewritten
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.session import start_session
from ds_dagster.engine.start import Compiled, StoreSpecs, compiled, empty, prepare_query, store_specs
from ds_dagster.errors import DsError, error
from ds_dagster.figures import taken_over
from ds_dagster.places.trees import make_folder
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.host import HostContext, StartOrder
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.finite import advance, failed
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import JobRow, RequestRow, StatusRow, Transition
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.journals.states import check_transition
from ds_dagster.runtime.journals.told import NOTHING, told
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import RESTORED, FiniteResult, JobState
from ds_dagster.settings import Settings
from ds_dagster.spark.faults import classify
from ds_dagster.spark.queries.query import close, failure, finish, start

HOLD_SECONDS = 60.0
"""How long a step holds its run without renewing the deadline."""

RENEW_SECONDS = 5.0
POLL_SECONDS = 0.25
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class StepRun:
    """One run.

    Attributes:
        job: its row in the journal.
        request: the run's request; in the journal in state STEP.
        status: the job's status in the journal.
    """

    settings: Settings
    journal: Journal
    clock: Clock
    job: JobRow
    request: RequestRow
    status: StatusRow
    _renewed: float = field(default=float("-inf"), init=False)

    def run(self, spark: SparkSession) -> FiniteResult:
        """Wait for the sources, load, publish, and record the result. A failure of the load is returned, not raised;
        an interruption stops the query and is raised."""
        places = Places.of(self.settings)
        checkpoints = Checkpoints.of(self.settings, self.journal.identity())
        redactor = Redactor()
        context = HostContext(
            self.settings, places, self.clock, checkpoints, JobLog(places, self.clock, redactor), redactor
        )
        order = self._order()
        hosted = HostedQuery(order, self.clock)
        try:
            self._wait_for_sources()
            self._start(hosted, context, spark)
            self._follow(hosted)
            return self._finish(hosted)
        except DsError as problem:
            return self._failed(hosted, problem, redactor)
        except Exception as problem:  # noqa: BLE001, the boundary of one job: classified, and its failure
            return self._failed(hosted, classify(problem), redactor)
        except BaseException:
            self._interrupted(hosted)
            raise

    def _order(self) -> StartOrder:
        is_same_version = self.status.checkpoint_version == self.job.checkpoint_version
        is_restored = RESTORED in self.job.begins
        return StartOrder(
            name=self.job.name,
            incarnation=uuid.uuid4().hex,
            spec=JobSpec.from_json(self.job.spec),
            identity=self.journal.identity().sink(self.job.writes_as, self.job.checkpoint_version),
            checkpoint_version=self.job.checkpoint_version,
            started=is_same_version or is_restored,
            progressed=is_restored or (is_same_version and self.status.batch is not None),
            skips=skips_of(self.job.skips),
            begins=self.job.begins,
            writes_as=self.job.writes_as,
        )

    def _wait_for_sources(self) -> None:
        waiting = replace(self.request, state="WAITING")
        while waiting.state == "WAITING":
            with self.journal.read() as connection:
                observed = rows.statuses(connection)
                wanted = {name for name, job in rows.jobs(connection).items() if job.desired == "RUNNING"}
            waiting = advance(waiting, observed, wanted, self.clock.now())
            self._renew()
            if waiting.state == "WAITING":
                self.clock.sleep(POLL_SECONDS)

    def _start(self, hosted: HostedQuery, context: HostContext, spark: SparkSession) -> None:
        order = hosted.order
        path = context.checkpoints.verify(
            order.checkpoint_name, order.checkpoint_version, started=order.started, progressed=order.progressed
        )
        self._record("STARTING", order, "run in a step")
        definition = compiled(order, context)
        hosted.prepared = prepare_query(spark, definition, self._specs(definition), str(path))
        make_folder(path.parent)
        empty(spark, definition, str(path))
        path = rewritten(hosted.prepared, path, partial(context.log.line, order.name, "INFO"))
        hosted.query = start(hosted.prepared, str(path), "available_now")
        self._record("RUNNING", order, "it works")

    def _specs(self, definition: Compiled) -> StoreSpecs:
        """Specs of sources and sinks. Waits until the request's deadline for entities that other jobs create."""
        while True:
            try:
                return store_specs(definition)
            except DsError as problem:
                if problem.fault.hint != "wait" or self.clock.now() >= self.request.deadline:
                    raise
            self._renew()
            self.clock.sleep(POLL_SECONDS)

    def _follow(self, hosted: HostedQuery) -> None:
        while not hosted.has_ended():
            hosted.look()
            self._renew(hosted)
            self.clock.sleep(POLL_SECONDS)
        hosted.look()

    def _finish(self, hosted: HostedQuery) -> FiniteResult:
        assert hosted.prepared is not None
        assert hosted.query is not None
        try:
            problem = failure(hosted.prepared, hosted.query)
            if problem is not None:
                raise problem
            loaded = finish(hosted.prepared)
            loaded = hosted.progress.rows if loaded is None else loaded
        finally:
            close(hosted.prepared)
        self.request = replace(
            self.request, state="FINISHED", rows=loaded, batches=hosted.progress.batches, finished=self.clock.now()
        )
        self._record("FINISHED", hosted.order, "everything available is loaded", hosted)
        return self._result()

    def _failed(self, hosted: HostedQuery, problem: DsError, redactor: Redactor) -> FiniteResult:
        self.request = failed(self.request, problem, self.clock.now(), redactor)
        self._end_query(hosted)
        self.status = replace(self.status, **told(problem, redactor))
        if self.status.state not in ("STARTING", "RUNNING"):
            self._record("STARTING", hosted.order, "run in a step")
        self._record("FAILED", hosted.order, "the run failed", hosted)
        return self._result()

    def _interrupted(self, hosted: HostedQuery) -> None:
        self._end_query(hosted)
        self.request = replace(self.request, state="STOPPED", finished=self.clock.now())
        if self.status.state in ("STARTING", "RUNNING"):
            self._record("STOPPING", hosted.order, "the step was interrupted")
            self._record("STOPPED", hosted.order, "the step was interrupted", hosted)
        else:
            self._renew(force=True)

    def _end_query(self, hosted: HostedQuery) -> None:
        if hosted.query is not None and hosted.query.isActive:
            hosted.query.stop()
        if hosted.prepared is not None:
            close(hosted.prepared)

    # -- recording ---------------------------------------------------------------------------------------------------

    def _result(self) -> FiniteResult:
        result = rows.result(self.request)
        assert result is not None
        return result

    def _record(self, target: JobState, order: StartOrder, reason: str, hosted: HostedQuery | None = None) -> None:
        now, before = self.clock.now(), self.status
        check_transition(order.name, before.state, target)
        changes: dict[str, Any] = {}
        if target == "STARTING" and not self.request.condition:
            changes |= NOTHING
        if target == "STARTING" and not order.started:
            changes |= {"batch": None}
        self.status = replace(
            before if hosted is None else taken_over(before, hosted.progress),
            state=target,
            since=now,
            incarnation=order.incarnation,
            generation=self.job.generation,
            fingerprint=self.job.fingerprint,
            checkpoint_version=order.checkpoint_version,
            beat=now,
            **changes,
        )
        moved = Transition(
            name=order.name,
            at=now,
            kind="state",
            source=before.state,
            target=target,
            reason=reason,
            condition=self.status.condition,
            message=self.status.message,
            parameters=self.status.parameters,
            incarnation=order.incarnation,
            generation=self.job.generation,
            seconds=max(0.0, now - before.since) if before.since else 0.0,
            actor="step",
        )
        with self.journal.write() as connection:
            rows.save_statuses(connection, [self.status], writer=STEP)
            rows.add_transitions(connection, [moved])
            rows.save_requests(connection, [self.request])

    def _renew(self, hosted: HostedQuery | None = None, *, force: bool = False) -> None:
        now = self.clock.monotonic()
        if not force and now - self._renewed < RENEW_SECONDS:
            return
        self._renewed = now
        if hosted is not None:
            self.status = taken_over(self.status, hosted.progress)
        held = replace(self.request, waiting_since=self.clock.now() + HOLD_SECONDS)
        with self.journal.write() as connection:
            row = rows.request(connection, self.request.id)
            if row is None or row.state not in ("STEP", held.state):
                raise error("RUN_CANCELLED", name=self.job.name, request=self.request.id)
            rows.save_requests(connection, [held])
            if self.status.incarnation:
                rows.save_statuses(connection, [self.status], writer=STEP)


def open_session(settings: Settings, properties: Mapping[str, str]) -> SparkSession:
    """Start a Spark session for steps, in the way the engine starts its own.

    Args:
        settings: of the project.
        properties: Spark properties; they override those of the settings.

    Raises:
        DsError: Java is missing, or jars cannot be fetched.
    """
    return start_session(replace(settings, spark={**settings.spark, **properties}), "ds_dagster step")
