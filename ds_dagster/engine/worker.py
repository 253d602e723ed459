"""The Spark host: one driver, one session and one streaming query per job.

A few worker threads carry out orders; the reconciler's thread only observes. A failure of a job ends that job only;
the death of the JVM ends the engine.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ds_dagster.engine.errands import run_errand
from ds_dagster.engine.expiry import ExpiryRounds
from ds_dagster.engine.growth import rewritten
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.session import start_session
from ds_dagster.engine.shape_watch import ShapeWatch
from ds_dagster.engine.slots import reserve
from ds_dagster.engine.start import Compiled, StoreSpecs, compiled, empty, fence, prepare_query, store_specs
from ds_dagster.engine.watch import LagWatch
from ds_dagster.errors import DsError, error
from ds_dagster.places.trees import Place, make_folder
from ds_dagster.plan.state_store import state_store
from ds_dagster.runtime.host import Errand, HostContext, Observation, StartOrder
from ds_dagster.spark.faults import classify
from ds_dagster.spark.planner.shared import shares_planner
from ds_dagster.spark.queries.query import close, failure, finish, start
from ds_dagster.spark.session import heap_bytes

LOGIN_REFUSED = ("STORE_LOGIN_REFUSED", "REGISTRY_LOGIN_REFUSED", "STORE_TLS_FAILED")
"""Conditions that a job with an old secret gets after a rotation: another start may help."""
STARTERS = 3
PLANNERS = 1
"""Number of jobs with a Python source that start at the same time if each has a planning process of its own."""
PLANNED_SECONDS = 60.0
"""How long the start of a job with a Python source may delay the next such job."""
STOPPERS = 4
BATCH_SECONDS = 20.0
"""How long a stop waits for the running batch to end; then the batch is aborted, and the next start repeats it."""

OUT_OF_MEMORY_EXIT = 3
"""Exit code of a JVM with ``-XX:+ExitOnOutOfMemoryError``."""

JVM_LOCK_SECONDS = 5.0
JVM_EXIT_SECONDS = 10.0
_SPARK_FAILURES = (DsError, PySparkException, Py4JError, OSError)
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class SparkHost:
    """See :class:`ds_dagster.runtime.host.Host`."""

    context: HostContext
    _session: Future[SparkSession] = field(default_factory=Future, init=False)
    _starters: ThreadPoolExecutor = field(init=False)
    _planners: ThreadPoolExecutor = field(init=False)
    _stoppers: ThreadPoolExecutor = field(init=False)
    _jobs: dict[str, HostedQuery] = field(default_factory=dict, init=False)
    _jvm_lock: Any = field(default=None, init=False)
    _closing: threading.Event = field(default_factory=threading.Event, init=False)
    _errands: dict[str, Future[DsError | None]] = field(default_factory=dict, init=False)
    _watch: LagWatch = field(init=False)
    _shapes: ShapeWatch = field(init=False)
    _expiry: ExpiryRounds = field(init=False)

    def __post_init__(self) -> None:
        self._watch = LagWatch(lambda: list(self._jobs.values()), self._ruin)
        self._shapes = ShapeWatch(lambda: list(self._jobs.values()), self.context.clock.monotonic)
        self._expiry = ExpiryRounds(lambda: list(self._jobs.values()), self.context.clock.monotonic)
        self._starters = ThreadPoolExecutor(STARTERS, "ds-start")
        self._planners = ThreadPoolExecutor(PLANNERS, "ds-plan")
        self._stoppers = ThreadPoolExecutor(STOPPERS, "ds-stop")

    @classmethod
    def begin(cls, context: HostContext) -> SparkHost:
        """A host whose Spark session is being started."""
        host = cls(context)
        threading.Thread(target=host._begin, name="ds-session", daemon=True).start()
        return host

    # -- the session -------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether Spark is up. Raises DsError: Spark did not start; ENGINE_JVM_DIED, ENGINE_OUT_OF_MEMORY."""
        if not self._session.done():
            return False
        gateway = cast(Any, self._session.result().sparkContext._gateway)
        if gateway is not None and gateway.proc.poll() is not None and not self._closing.is_set():
            raise self._ended(gateway.proc.returncode)
        return True

    def _ended(self, code: int | None) -> DsError:
        if code != OUT_OF_MEMORY_EXIT:
            return error("ENGINE_JVM_DIED")
        busy = [name for name, job in self._jobs.items() if job.observation().busy]
        return error("ENGINE_OUT_OF_MEMORY", memory=self.context.settings.engine.memory, jobs=busy or ["no job"])

    def _begin(self) -> None:
        try:
            spark = self._start_session()
        except DsError as problem:
            self._session.set_exception(problem)
        except Exception as problem:  # noqa: BLE001, a thread's boundary: ready() raises it
            _LOG.exception("Spark did not start")
            self._session.set_exception(classify(problem))
        else:
            self._session.set_result(spark)
            _LOG.info("Spark %s is ready", spark.version)

    def _start_session(self) -> SparkSession:
        spark = start_session(self.context.settings, "ds_dagster", _LOG.info)
        self._lock_jvm(spark)
        return spark

    def _lock_jvm(self, spark: SparkSession) -> None:
        """Let the JVM itself hold the lock: the JVM outlives a killed Python process and may still write a batch.

        Raises:
            DsError: ENGINE_JVM_LIVES, if another JVM holds the lock for :data:`JVM_LOCK_SECONDS`.
        """
        path = self.context.places.jvm_lock
        path.parent.mkdir(parents=True, exist_ok=True)
        channel = cast(Any, spark._jvm).java.io.RandomAccessFile(str(path), "rw").getChannel()
        end = self.context.clock.monotonic() + JVM_LOCK_SECONDS
        while (lock := channel.tryLock()) is None:
            if self.context.clock.monotonic() > end:
                raise error("ENGINE_JVM_LIVES", lock=str(path), seconds=int(JVM_LOCK_SECONDS))
            self.context.clock.sleep(0.05)
        self._jvm_lock = (channel, lock)

    # -- orders ------------------------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Start an incarnation in the background, after running errands that may change its checkpoint."""
        job = HostedQuery(order, self.context.clock)
        self._jobs[order.name] = job
        errands = [errand for name, errand in self._errands.items() if name == order.name]
        self._starters.submit(self._guarded, job, partial(self._start, after=errands))

    def stop(self, name: str) -> None:
        """End a query after its batch, in the background."""
        job = self._jobs.get(name)
        if job is None or job.is_stop_asked:
            return
        job.is_stop_asked = True
        if job.query is not None:
            self._stoppers.submit(self._guarded, job, self._stop)

    def fence(self, order: StartOrder) -> None:
        """Abort transactions that a dead job left open, so that readers can go on; a failure is only logged."""
        self._stoppers.submit(self._fence, order)

    def run_errand(self, errand: Errand) -> None:
        """Let a version take over, or drop it."""
        name = errand.order.name
        if name not in self._errands:
            self._errands[name] = self._stoppers.submit(self._errand, errand)

    def errands(self) -> Mapping[str, DsError | None]:
        """Job → result of its errand, None if it succeeded. Each ended errand is returned once."""
        ended = {name: future.result() for name, future in self._errands.items() if future.done()}
        for name in ended:
            del self._errands[name]
        return ended

    def forget(self, name: str) -> None:
        """Drop a job whose end the journal has recorded."""
        self._jobs.pop(name, None)

    def observe(self) -> Mapping[str, Observation]:
        """Observe all queries that are due, and return the observations of all jobs."""
        for job in list(self._jobs.values()):
            if job.query is None or job.phase in ("failed", "stopped", "finished") or not job.is_due():
                continue
            self._look(job)
        return {name: job.observation() for name, job in self._jobs.items()}

    def close(self) -> None:
        """End all queries and the JVM."""
        self._closing.set()
        self._watch.close()
        self._shapes.close()
        self._expiry.close()
        self._starters.shutdown(wait=False, cancel_futures=True)
        self._planners.shutdown(wait=False, cancel_futures=True)
        if self._session.done() and self._session.exception() is None:
            self._end_session(self._session.result())
        self._stoppers.shutdown(wait=False, cancel_futures=True)

    # -- in the reconciler's thread ----------------------------------------------------------------------------------

    def _look(self, job: HostedQuery) -> None:
        lost = job.progress.lost_records
        try:
            job.look()
            ended = job.has_ended()
        except Exception as problem:  # one job's boundary: the others go on
            if self._is_jvm_gone():
                gateway = cast(Any, self._session.result().sparkContext._gateway)
                raise self._ended(None if gateway is None else gateway.proc.returncode) from problem
            _LOG.warning("%s cannot be looked at: %s", job.order.name, classify(problem))
            return
        if job.progress.lost_records > lost:
            self._log_lost(job, job.progress.lost_records - lost)
        for text in (*job.grown(), *job.crowded()):
            self.context.log.line(job.order.name, "WARNING", text)
        if ended and not job.is_concluding:
            job.is_concluding = True
            self._stoppers.submit(self._guarded, job, self._conclude)

    def _log_lost(self, job: HostedQuery, count: int) -> None:
        """Write to the job's own log which records were skipped."""
        which = "; ".join(f"{name}: {lost}" for name, lost in job.lost().items())
        text = f"{count} records were gone before they were read, and skipped ({which})"
        self.context.log.line(job.order.name, "WARNING", text)

    def _is_jvm_gone(self) -> bool:
        gateway = cast(Any, self._session.result().sparkContext._gateway)
        return gateway is None or gateway.proc.poll() is not None

    # -- in worker threads -------------------------------------------------------------------------------------------

    def _guarded(self, job: HostedQuery, work: Callable[[HostedQuery], None]) -> None:
        """A job's boundary: every exception becomes the job's failure."""
        try:
            work(job)
        except Exception as problem:  # noqa: BLE001, the boundary of one job: logged, and its failure
            fault = classify(problem)
            if fault.condition == "SPARK_LOST" and self._ends_soon():
                return  # the engine ends with its JVM: this is not a failure of the job
            if not isinstance(problem, DsError):
                _LOG.exception("%s failed", job.order.name)
            self._failed(job, fault)

    def _ends_soon(self) -> bool:
        """Whether the JVM ends within seconds: its connection breaks shortly before its process ends."""
        if not self._session.done() or self._session.exception() is not None:
            return False
        gateway = cast(Any, self._session.result().sparkContext._gateway)
        try:
            return gateway is None or gateway.proc.wait(JVM_EXIT_SECONDS) is not None
        except subprocess.TimeoutExpired:
            return False

    def _start(self, job: HostedQuery, after: Sequence[Future[DsError | None]] = ()) -> None:
        wait(after)
        order = job.order
        path = self.context.checkpoints.verify(
            order.checkpoint_name, order.checkpoint_version, started=order.started, progressed=order.progressed
        )
        definition = compiled(order, self.context)
        job.rotated, job.places = definition.rotated, definition.places
        inputs = store_specs(definition)
        is_shared = shares_planner(self.context.settings, {read.provider for read in inputs.reads.values()})
        self._session.result()
        begin = partial(self._begin_query, definition=definition, inputs=inputs, path=path)
        if not is_shared:
            self._planners.submit(self._guarded, job, partial(self._one_by_one, begin))
        else:
            begin(job)

    def _one_by_one(self, begin: Callable[[HostedQuery], None], job: HostedQuery) -> None:
        """Begin a query with a Python source, and wait until it runs, up to :data:`PLANNED_SECONDS`.

        Spark gives the planning process of such a source ten seconds to start; many at once take longer.
        """
        begin(job)
        end = self.context.clock.monotonic() + PLANNED_SECONDS
        while job.query is not None and job.phase == "starting" and not self._closing.is_set():
            if self.context.clock.monotonic() > end:
                return
            self.context.clock.sleep(0.1)

    def _begin_query(self, job: HostedQuery, *, definition: Compiled, inputs: StoreSpecs, path: Place) -> None:
        if self._is_given_up(job):
            return
        reserve(job, definition.query, inputs.reads, self._session.result(), list(self._jobs.values()))
        job.prepared = prepare_query(self._session.result(), definition, inputs, str(path))
        job.sources, job.shapes = inputs.watched, inputs.shapes
        job.heap = heap_bytes(self._session.result()) if state_store(definition.query) == "heap" else 0
        if self._is_given_up(job):
            return
        make_folder(path.parent)
        empty(self._session.result(), definition, str(path))
        log = partial(self.context.log.line, job.order.name, "INFO")
        path = rewritten(job.prepared, path, log, grows=definition.order.spec.grows)
        job.query = start(job.prepared, str(path), "available_now" if job.order.finite else "continuous")
        self._watch.start()
        if job.shapes:
            self._shapes.start()
        self._expiry.start()
        if job.is_stop_asked:
            self._stop(job)

    def _is_given_up(self, job: HostedQuery) -> bool:
        """Whether the job was stopped before Spark's query existed; closes what is prepared then."""
        if not job.is_stop_asked and not self._closing.is_set():
            return False
        if job.prepared is not None:
            close(job.prepared)
        job.phase = "stopped"
        return True

    def _stop(self, job: HostedQuery) -> None:
        """Stop between two batches; inside a batch if it takes longer than :data:`BATCH_SECONDS`."""
        query, clock = job.query, self.context.clock
        if query is None:
            return
        end, batch = clock.monotonic() + BATCH_SECONDS, job.progress.batch
        while query.isActive and query.status["isTriggerActive"] and clock.monotonic() < end:
            job.look()
            if job.progress.batch != batch or job.is_idle:
                break
            clock.sleep(0.02)
        query.stop()

    def _conclude(self, job: HostedQuery) -> None:
        """A query has ended: find out why, publish the rows of a finite run, and release resources."""
        assert job.prepared is not None
        assert job.query is not None
        problem = None if job.is_stop_asked else job.ruin or failure(job.prepared, job.query)
        try:
            job.look()
            if problem is None and job.order.finite and not job.is_stop_asked:
                loaded = finish(job.prepared)
                job.loaded = job.progress.rows if loaded is None else loaded
        finally:
            close(job.prepared)
        if problem is not None:
            self._failed(job, problem)
        elif job.order.finite and not job.is_stop_asked:
            job.phase = "finished"
        else:
            job.phase = "stopped"

    def _ruin(self, job: HostedQuery, problem: DsError) -> None:
        """A query must not go on: end it at once, in the background."""
        if job.ruin is None and not job.is_stop_asked and job.query is not None:
            job.ruin = problem
            query = job.query
            self._stoppers.submit(self._guarded, job, lambda _: query.stop())

    def _failed(self, job: HostedQuery, problem: DsError) -> None:
        if problem.condition in LOGIN_REFUSED and (rotated := job.rotated()):
            named = str(problem.params.get("store") or problem.params.get("registry"))
            problem = error("SECRET_ROTATED", store=named, secrets=", ".join(rotated), detail=problem.message)
        job.failure = self._redacted(problem, job.places)
        job.phase = "stopped" if job.is_stop_asked and job.query is None else "failed"

    def _redacted(self, problem: DsError, places: str) -> DsError:
        """Remove secrets. If the message names no store, the detail lists the entities the job reads and writes."""
        redact = self.context.redactor
        params = {name: redact(value) if isinstance(value, str) else value for name, value in problem.params.items()}
        named = "store" in params or "registry" in params
        detail = problem.detail if named else "; ".join(part for part in (problem.detail, places) if part)
        return error(problem.condition, span=problem.span, detail=redact(detail), **params)

    def _fence(self, order: StartOrder) -> None:
        try:
            place = self.context.checkpoints.path(order.checkpoint_name, order.checkpoint_version)
            fence(self._session.result(), compiled(order, self.context), place)
        except _SPARK_FAILURES as problem:
            _LOG.warning("%s: its open transactions were not aborted: %s", order.name, classify(problem))

    def _errand(self, errand: Errand) -> DsError | None:
        try:
            run_errand(errand, self.context, self._session.result())
        except Exception as problem:  # noqa: BLE001, the boundary of an errand: its outcome
            if not isinstance(problem, DsError):
                _LOG.exception("%s: %s failed", errand.order.name, errand.kind)
            return self._redacted(classify(problem), "")
        return None

    def _end_session(self, spark: SparkSession) -> None:
        gateway = cast(Any, spark.sparkContext._gateway)
        try:
            spark.stop()
            gateway.shutdown()
        except _SPARK_FAILURES as problem:
            _LOG.warning("Spark did not stop cleanly: %s", classify(problem))
        process = gateway.proc
        process.stdin.close()
        try:
            process.wait(JVM_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            _LOG.warning("the JVM is killed: it did not end in %s s", JVM_EXIT_SECONDS)
            process.kill()
            process.wait()
