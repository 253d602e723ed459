"""The engine: one process per project, and one per compute pool. It holds locks and a lease, hosts the jobs placed in
it and reconciles until it is signalled to end.

``ds engine run`` calls :func:`run_engine` in the foreground; the local launcher starts
``python -m ds_dagster.runtime.engine`` detached.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from ds_dagster.clock import Clock, SystemClock
from ds_dagster.errors import DsError, error
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.decide import ENDS
from ds_dagster.runtime.host import Host, HostContext, HostFactory
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.launchers.local import LocalLauncher, engine_command
from ds_dagster.runtime.pools import pool_settings
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.liveness import SILENT_SECONDS
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.logs import log_engine, stop_logging
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.processes.process import ProcessId
from ds_dagster.runtime.reconcile import Reconciler
from ds_dagster.runtime.status import EngineState, EngineStatus
from ds_dagster.settings import Settings, load_settings

TICK_SECONDS = 0.25
MOVING_SECONDS = 0.05
"""Seconds between two ticks while a job starts or stops, and between two looks at the journal for new requests: people
wait for both."""

DRAIN_SECONDS = 60.0
"""How long jobs may take to finish their batch after SIGTERM. After that they are cut off and later resume from the
checkpoint."""

IDLE_SECONDS = 60.0
"""How long the engine of a compute pool lives without work."""

LOCK_SECONDS = 2.0
"""How long to try for the lock. Readers that check the lock hold it for a moment, so the first attempt may fail."""

JVM_SECONDS = 20.0
"""How long the JVM of a former engine may outlive it."""

STATE_CHECK_SECONDS = 5.0
EXIT_RESTART = 75
"""Exit code of an engine that should be started again (its lease or its state folder was lost)."""

EXIT_AGAIN = 76
"""Exit code of an engine whose JVM has ended; a detached engine starts again by itself."""

JVM_ENDED = ("ENGINE_JVM_DIED", "ENGINE_OUT_OF_MEMORY")
AGAIN_SECONDS = 60.0
"""The longest pause before a detached engine starts again by itself; the first one is a second."""

LONG_LIVED_SECONDS = 600.0
"""An engine that lived at least this long starts again after the first pause."""


@dataclass(slots=True)
class Engine:
    """One run of an engine. Set ``end`` to end it after the jobs' batches."""

    settings: Settings
    clock: Clock
    make_host: HostFactory
    redactor: Redactor
    end: threading.Event = field(default_factory=threading.Event)
    _log: logging.Logger = field(default_factory=lambda: logging.getLogger("ds_dagster.engine"), init=False)
    _trouble: str = field(default="", init=False)
    _needed: float = field(default=0.0, init=False)
    _heard: float = field(default=0.0, init=False)
    _state_checked: float = field(default=0.0, init=False)

    def run(self) -> None:
        """Run until ``end`` is set, or until a pool's engine has had no work for :data:`IDLE_SECONDS`.

        Raises:
            DsError: it could not begin (ENGINE_ALREADY_RUNNING, ENGINE_JVM_LIVES, ENGINE_LEASE_HELD, JOURNAL_…) or
                cannot go on (ENGINE_LEASE_LOST, ENGINE_STATE_GONE, ENGINE_JVM_DIED, and others of :meth:`Host.ready`).
        """
        places = Places.of(self.settings)
        lease = Lease.new(self.clock, self.settings.pool)
        with self._locked(places, lease) as lock:
            journal = Journal.open(self.settings, engine_environment(self.settings.root), keep=True)
            try:
                self._migrate(journal, lease)
                lease.take(journal)
                self._serve(places, journal, lease, lock)
            finally:
                journal.close()

    # -- beginning ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, places: Places, lease: Lease) -> Iterator[FileLock]:
        """Hold the Python lock, and wait until no JVM of a former engine lives."""
        lock = FileLock(places.python_lock)
        row = lease.row
        self._wait(
            lambda: lock.acquire({"pid": row.pid, "started": row.process_started, "token": row.token}),
            LOCK_SECONDS,
            lambda: error("ENGINE_ALREADY_RUNNING", holder=_holder(places)),
        )
        try:
            failure = error("ENGINE_JVM_LIVES", lock=str(places.jvm_lock), seconds=int(JVM_SECONDS))
            self._wait(lambda: not locks.is_held(places.jvm_lock), JVM_SECONDS, lambda: failure)
            yield lock
        finally:
            lock.release()

    def _wait(self, done: Callable[[], bool], seconds: float, failure: Callable[[], DsError]) -> None:
        end = self.clock.monotonic() + seconds
        while not done():
            if self.clock.monotonic() >= end or self.end.is_set():
                raise failure()
            self.clock.sleep(0.05)

    def _migrate(self, journal: Journal, lease: Lease) -> None:
        """Create the journal, or migrate an older schema. We hold the locks, so no other engine of this pool on this
        machine uses the journal; if an engine of another pool or machine lives, the journal is not migrated."""
        try:
            journal.create()
        except DsError as problem:
            if problem.condition != "JOURNAL_OLDER" or lease.has_neighbour(journal, Places.of(self.settings)):
                raise
            lease.check_free(journal)
            self._log.info("migrating the journal: %s", problem.message)
            journal.migrate()

    # -- living ------------------------------------------------------------------------------------------------------

    def _serve(self, places: Places, journal: Journal, lease: Lease, lock: FileLock) -> None:
        identity = journal.create()
        job_log = JobLog(places, self.clock, self.redactor)
        checkpoints = Checkpoints.of(self.settings, identity)
        host = self.make_host(HostContext(self.settings, places, self.clock, checkpoints, job_log, self.redactor))
        reconciler = Reconciler(journal, identity, lease, host, self.clock, random.random, job_log, places=places)
        self._heard = self._needed = self.clock.monotonic()
        try:
            self._log.info("engine %s (%s) begins, journal %s", lease.row.name, lease.row.pid, journal.shown)
            reconciler.take_over()
            self._loop(reconciler, lambda: self._check_state(lock, journal))
        except DsError as problem:
            lease.tell("GONE", problem.condition, problem.message)
            if problem.condition in ENDS:
                self._tell_jobs(reconciler, problem)
            raise
        finally:
            host.close()
            self._say_goodbye(journal, lease)

    def _tell_jobs(self, reconciler: Reconciler, problem: DsError) -> None:
        try:
            reconciler.ended_by(problem)
        except DsError as unwritten:
            self._log.warning("the journal does not know which jobs were in a batch: %s", unwritten.message)

    def _loop(self, reconciler: Reconciler, check: Callable[[], None]) -> None:
        drain_until = float("inf")
        while True:
            begun = self.clock.monotonic()
            if self.end.is_set() and not reconciler.draining:
                self._log.info("ending: jobs stop after their batches")
                reconciler.draining, drain_until = True, begun + DRAIN_SECONDS
            self._tick(reconciler)
            check()
            if self._is_left(reconciler):
                return
            if reconciler.draining and (reconciler.is_idle() or self.clock.monotonic() > drain_until):
                return
            interval = MOVING_SECONDS if reconciler.is_moving() else TICK_SECONDS
            rest(self.clock, reconciler.journal, begun + interval)

    def _is_left(self, reconciler: Reconciler) -> bool:
        """Whether the engine of a pool ends because its pool has had no work for :data:`IDLE_SECONDS`. The journal gets
        the end first: a job placed in the pool after that starts a new engine, and a job placed before keeps this
        one."""
        now = self.clock.monotonic()
        is_kept = not self.settings.pool or self.settings.engine.launcher != "local" or reconciler.draining
        if is_kept or self._trouble or reconciler.is_needed():
            self._needed = now
            return False
        if now - self._needed < IDLE_SECONDS:
            return False
        if not reconciler.leave():
            self._needed = now
            return False
        self._log.info("nothing is left in compute pool %s", self.settings.pool)
        return True

    def _tick(self, reconciler: Reconciler) -> None:
        """One tick; failures of the journal are tolerated, jobs keep running."""
        try:
            ready = reconciler.host.ready()
            state: EngineState = "STOPPING" if reconciler.draining else "RUNNING" if ready else "STARTING"
            reconciler.lease.tell(state)
            reconciler.tick()
        except DsError as problem:
            if not problem.condition.startswith("JOURNAL_"):
                raise
            if self._trouble != problem.condition:
                self._log.warning("%s", problem)
            self._trouble = problem.condition
            return
        if self._trouble:
            self._log.info("the journal works again")
        self._trouble, self._heard = "", self.clock.monotonic()

    def _check_state(self, lock: FileLock, journal: Journal) -> None:
        """Raise ENGINE_LEASE_LOST or ENGINE_STATE_GONE if lease, journal file or lock are not ours any more."""
        now = self.clock.monotonic()
        if journal.local is None and now - self._heard > SILENT_SECONDS * 0.6:
            raise error("ENGINE_LEASE_LOST", detail="the journal's server has not answered for too long")
        if now - self._state_checked < STATE_CHECK_SECONDS:
            return
        self._state_checked = now
        gone = journal.local is not None and not journal.local.is_file()
        if gone or not lock.is_intact():
            raise error("ENGINE_STATE_GONE", folder=str(self.settings.state))

    def _say_goodbye(self, journal: Journal, lease: Lease) -> None:
        """Report the end in the journal, best effort: the locks are free a moment later anyway."""
        lease.tell("GONE", lease.row.condition, lease.row.message)
        try:
            with journal.write() as connection:
                lease.renew(connection)
        except DsError as problem:
            self._log.warning("the journal does not know that the engine ends: %s", problem.message)


def rest(clock: Clock, journal: Journal, end: float) -> None:
    """Sleep until ``end`` (monotonic seconds), or until a local journal has changed."""
    mark = journal.mark()
    while (left := end - clock.monotonic()) > 0:
        clock.sleep(min(left, MOVING_SECONDS))
        if journal.mark() != mark:
            return


def run_engine(
    settings: Settings, *, make_host: HostFactory | None = None, clock: Clock | None = None, terminal: bool = True
) -> int:
    """Run the engine in this process until SIGTERM or SIGINT; returns 0, EXIT_AGAIN or EXIT_RESTART.

    Args:
        settings: of the project, or of one of its pools (:func:`ds_dagster.runtime.pools.pool_settings`).
        make_host, clock: default: Spark and the machine's clock.
        terminal: also log to standard error.

    Raises:
        DsError: other failures, such as an engine that cannot begin; a running engine is not touched.
    """
    redactor = Redactor()
    logger = log_engine(Places.of(settings), redactor, terminal=terminal)
    engine = Engine(settings, clock or SystemClock(), make_host or _spark_host, redactor)
    try:
        with _ended_by_signals(engine.end):
            engine.run()
    except DsError as problem:
        logger.error("%s", problem)
        if problem.condition in JVM_ENDED:
            return EXIT_AGAIN
        if problem.condition in ("ENGINE_LEASE_LOST", "ENGINE_STATE_GONE"):
            return EXIT_RESTART
        raise
    except Exception:  # the engine's boundary: logged, never swallowed
        logger.exception("the engine failed")
        raise
    finally:
        logger.info("engine ends")
        stop_logging(logger)
    return 0


def start_engine(settings: Settings, wait: float = 60.0, *, clock: Clock | None = None) -> EngineStatus:
    """Start the engine detached, unless it runs; see :meth:`ds_dagster.runtime.control.Control.ensure_engine`."""
    chosen = clock or SystemClock()
    return Control.open(settings, clock=chosen, launcher=LocalLauncher(settings, chosen)).ensure_engine(wait)


def stop_engine(
    settings: Settings, timeout: float = DRAIN_SECONDS + 30.0, *, kill: bool = False, clock: Clock | None = None
) -> bool:
    """End an engine on this machine and wait until both its locks are free.

    Args:
        settings: of the project; ``settings.pool`` selects the engine.
        timeout: seconds to wait.
        kill: end it at once instead of after the jobs' batches.
        clock: for waiting.

    Returns:
        Whether an engine was running.

    Raises:
        ExternalError: ENGINE_NOT_STOPPED.
    """
    places, clock = Places.of(settings), clock or SystemClock()
    if not locks.is_held(places.python_lock) and not locks.is_held(places.jvm_lock):
        return False
    process = _process(places)
    if process is not None:
        process.signal(signal.SIGKILL if kill else signal.SIGTERM)
    end = clock.monotonic() + timeout
    while locks.is_held(places.python_lock) or locks.is_held(places.jvm_lock):
        if clock.monotonic() >= end:
            raise error("ENGINE_NOT_STOPPED", pid=process.pid if process else "?", seconds=int(timeout))
        clock.sleep(0.1)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The detached engine's entry point."""
    parser = argparse.ArgumentParser(prog="ds_dagster.runtime.engine")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--pool", default="")
    parser.add_argument("--ended", type=int, default=0, help="how often in a row its JVM has ended")
    chosen = parser.parse_args(arguments)
    clock = SystemClock()
    began = clock.monotonic()
    try:
        settings = load_settings(chosen.root, state=chosen.state, environment=chosen.environment)
        code = run_engine(pool_settings(settings, chosen.pool), terminal=False)
    except DsError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if code == EXIT_AGAIN:
        _again(chosen, 0 if clock.monotonic() - began > LONG_LIVED_SECONDS else chosen.ended, clock)
    return code


def _again(chosen: argparse.Namespace, ended: int, clock: Clock) -> None:
    """Replace this process by a new engine, since nothing else may start one. The locks are free, so another engine may
    take them first."""
    clock.sleep(min(AGAIN_SECONDS, 2.0**ended))
    command = engine_command(chosen.root, chosen.state, chosen.environment, chosen.pool)
    os.execv(sys.executable, [*command, "--ended", str(ended + 1)])


def _spark_host(context: HostContext) -> Host:
    from ds_dagster.engine.worker import SparkHost

    return SparkHost.begin(context)


def _process(places: Places) -> ProcessId | None:
    holder = locks.holder(places.python_lock)
    pid, started = holder.get("pid"), holder.get("started")
    return ProcessId(pid, started) if isinstance(pid, int) and isinstance(started, str) else None


def _holder(places: Places) -> str:
    process = _process(places)
    return f"process {process.pid}" if process else "process unknown"


@contextmanager
def _ended_by_signals(end: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event. Outside the main thread (in tests) no handler is installed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        end.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
