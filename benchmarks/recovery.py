"""The example's ten jobs after ``kill -9`` of their engine: from the start of the next one to the last job RUNNING.

Every run kills the engine and its JVM, starts the next engine and waits until each job has a new query that was seen
waiting for data. The peer is the budget. CPU seconds are those of the engine's processes up to that moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Pairs, Result, Size, children, cpu_seconds, results, say
from ds_dagster import local
from ds_dagster.demo import data
from ds_dagster.demo.example import copy_example, example_source
from ds_dagster.demo.feeding import Feeder
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.launchers.local import launch
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import load_settings

BUDGET_SECONDS = 10.0
BUDGET_CPU_SECONDS = 20.0
"""Two cores for the budget's time."""

WAIT_SECONDS = 300.0
POLL_SECONDS = 0.1
"""Between two looks at ten jobs; each takes 3 ms of the processor that recovers."""
CLICKS = 2_000
SERVERS = ("kafka", "kinesis")


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery: seconds to the last RUNNING, and to each job's; CPU seconds of the engine's Python and of its JVM
    with its helpers."""

    seconds: float
    jobs: Mapping[str, float]
    python_cpu: float
    java_cpu: float

    def __str__(self) -> str:
        at = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(self.jobs.items(), key=lambda job: job[1]))
        return f"{self.seconds:.1f} s, CPU {self.python_cpu:.1f} + {self.java_cpu:.1f} s ({at})"


def recovery(size: Size) -> list[Result]:
    """Kill and start again, run by run; the first recovery is a warm-up of the machine's file cache."""
    wall = Pairs("ten jobs RUNNING after kill -9 (peer: its budget)", "s", False)
    cpu = Pairs("the same, CPU of the engine (peer: two cores for the budget)", "CPU s", False)
    taken = []
    with _ten_jobs() as (project, control, names):
        for run in range(size.runs + size.of(1, 0)):
            one = recover(project, control, names)
            say(f"recovery {run}: {one}")
            taken.append(one)
    for one in taken[size.of(1, 0) :]:
        wall.add(one.seconds, BUDGET_SECONDS)
        cpu.add(one.python_cpu + one.java_cpu, BUDGET_CPU_SECONDS)
    say(f"median {statistics.median(one.seconds for one in taken):.1f} s")
    return results((wall, cpu))


def recover(project: LoadedProject, control: Control, names: Sequence[str]) -> Recovery:
    """Kill the engine, start the next one, and wait until all jobs run again."""
    before = {status.name: status.incarnation for status in control.statuses(names)}
    kill(control)
    begun, at = time.time(), time.perf_counter()
    child = launch(project.settings)
    jobs: dict[str, float] = {}
    while len(jobs) < len(names):
        for status in control.statuses(names):
            if _is_back(status, before):
                jobs.setdefault(status.name, (status.since or time.time()) - begun)
        if time.perf_counter() - at > WAIT_SECONDS:
            raise SystemExit(f"not RUNNING: {', '.join(set(names) - set(jobs))}; see {project.settings.state}")
        time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - at
    return Recovery(seconds, jobs, cpu_seconds([child.pid]), cpu_seconds(children(child.pid)[1:]))


def _is_back(status: JobStatus, before: Mapping[str, str]) -> bool:
    if status.state == "FAILED":
        raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")
    return status.state == "RUNNING" and status.incarnation != before[status.name]


def kill(control: Control) -> None:
    """SIGKILL to the engine and to everything below it; returns when its locks are free."""
    if locks.is_held(control.places.python_lock):
        for pid in reversed(children(int(str(locks.holder(control.places.python_lock)["pid"])))):
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + WAIT_SECONDS
    while locks.is_held(control.places.python_lock) or locks.is_held(control.places.jvm_lock):
        if time.monotonic() > end:
            raise SystemExit("the engine outlives its end")
        time.sleep(POLL_SECONDS)


@contextmanager
def _ten_jobs() -> Iterator[tuple[LoadedProject, Control, tuple[str, ...]]]:
    """The example in a folder of its own, with its servers, fed and running."""
    root = copy_example(example_source(), Path(tempfile.mkdtemp(prefix="ds-recovery-")))
    settings = load_settings(root)
    try:
        addresses = local.up(settings.state, only=SERVERS, progress=say)
        project = load_project(root, settings=load_settings(root), strict=True)
        names = tuple(name for name, query in project.queries.items() if not query.is_finite)
        control = Control.open(project.settings)
        begin(project, control, names)
        with Feeder(addresses) as feeder:
            for phase in data.phases(CLICKS):
                feeder.send((*phase.changes, *phase.events))
        yield project, control, names
        stop_engine(settings, WAIT_SECONDS)
    finally:
        stop_engine(settings, kill=True)
        local.down(settings.state)
        shutil.rmtree(root, ignore_errors=True)


def begin(project: LoadedProject, control: Control, names: Sequence[str]) -> None:
    """Start an engine with the jobs."""
    control.ensure_engine(WAIT_SECONDS)
    asked = control.ensure(project, names, "ensure", "benchmark")
    for status in control.wait(names, {one.name: one.generation for one in asked}, WAIT_SECONDS):
        if status.state != "RUNNING":
            raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")
