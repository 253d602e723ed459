"""1, 10 and 50 jobs in one engine: how long the next one takes to start, memory and idle CPU per job; 100 at once."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.house import STORES, House
from benchmarks.many import idle
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.throughput import CLICKS, FILTER
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks

WAIT_SECONDS = 300.0
TOPIC = "many_in"
AT_ONCE, AT_ONCE_SECONDS = 100, 60.0
Stage = dict[str, Any]


def many(house: House, size: Size) -> list[Result]:
    """Every run has a new engine and a new program by hand."""
    stages = [1, 4] if size.quick else [1, 10, 50]
    house.topic(TOPIC)
    starts = {n: Pairs(f"start of job {n}", "s", False) for n in stages}
    memory = Pairs(f"memory per job (of {stages[-1]})", "MB RSS", False)
    cpu = {n: Pairs(f"idle CPU of {n} jobs", "% of one core", False) for n in stages}
    for run in range(size.runs):
        mine, theirs = _ours(house, size, stages, run), _peer(house, size, stages, run)
        for stage, a, b in zip(stages, mine, theirs, strict=True):
            starts[stage].add(statistics.median(a["start"]), statistics.median(b["start"]))
            cpu[stage].add(max(a["cpu"], 0.1), max(b["cpu"], 0.1))
        memory.add(_per_job(mine), _per_job(theirs))
    return results((*starts.values(), memory, *cpu.values()))


def _per_job(stages: list[Stage]) -> float:
    """What a further job takes."""
    first, last = stages[0], stages[-1]
    return max(0.1, float(last["memory"] - first["memory"]) / int(last["stage"] - first["stage"]))


def at_once(house: House, size: Size) -> list[Result]:
    """Every run has a new engine, which starts all jobs together; each job creates the topic of its sink."""
    count = size.of(AT_ONCE, 4)
    wall = Pairs(f"{count} jobs applied at once, until the last is RUNNING (peer: its target)", "s", False)
    house.topic(TOPIC)
    for run in range(size.runs):
        names = [f"at_once_{run}_{number}" for number in range(count)]
        with _jobs(house, names) as (control, project):
            took = _started(control, project, names)
            say(f"at once: {count} jobs in {took:.1f} s")
            wall.add(took, AT_ONCE_SECONDS)
            _stopped(control, names)
    return results((wall,))


@contextmanager
def _jobs(house: House, names: Sequence[str]) -> Iterator[tuple[Control, LoadedProject]]:
    """A project with these jobs, and an engine that runs none of them yet."""
    file = house.root / "sql" / "many.sql"
    text = STORES + CLICKS.format(topic=TOPIC) + "\n".join(FILTER.format(name=name, bound="") for name in names)
    file.write_text(text, encoding="utf-8")
    project = load_project(house.root, settings=house.settings, strict=True)
    control = Control.open(house.settings)
    control.ensure_engine(WAIT_SECONDS)
    try:
        yield control, project
    finally:
        stop_engine(house.settings)
        file.unlink()


def _ours(house: House, size: Size, stages: list[int], run: int) -> list[Stage]:
    names = [f"many_ours_{run}_{number}" for number in range(stages[-1])]
    found, running = [], 0
    with _jobs(house, names) as (control, project):
        pid = int(str(locks.holder(control.places.python_lock)["pid"]))
        for stage in stages:
            taken = []
            while running < stage:
                taken.append(_started(control, project, names[running : running + 1]))
                running += 1
            found.append({"stage": stage, "start": taken[-3:], **idle(pid, size.of(10, 3))})
            say(f"many, ours: {found[-1]}")
        _stopped(control, names[:running])
    return found


def _started(control: Control, project: LoadedProject, names: Sequence[str]) -> float:
    """Seconds from asking to RUNNING as everybody sees it."""
    begun = time.perf_counter()
    asked = control.ensure(project, names, "ensure", "benchmark")
    for status in control.wait(names, {one.name: one.generation for one in asked}, WAIT_SECONDS):
        if status.state != "RUNNING":
            raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")
    return time.perf_counter() - begun


def _stopped(control: Control, names: list[str]) -> None:
    asked = control.stop(names, "benchmark")
    control.wait(names, {one.name: one.generation for one in asked}, WAIT_SECONDS)


def _peer(house: House, size: Size, stages: list[int], run: int) -> list[Stage]:
    if run == 0:
        for number in range(stages[-1]):
            house.topic(f"many_peer_{number}")
    command = [sys.executable, "-m", "benchmarks.many", "--root", str(house.root), "--bootstrap", house.bootstrap]
    command += ["--folder", str(house.root / "many" / str(run)), "--topic", TOPIC]
    command += ["--stages", ",".join(map(str, stages)), "--idle", str(size.of(10, 3))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit("the program by hand failed")
    found: list[Stage] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for stage in found:
        say(f"many, peer: {stage}")
    return found
