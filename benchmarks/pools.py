"""Many jobs over several engines on one machine: start, memory, idle CPU, and the loss of one engine.

    python -m benchmarks.pools [--jobs 200] [--engines 4] [--memory 2g] [--out benchmarks/out/pools.json]

Each job filters one topic into a topic of its own, exactly once. The jobs are divided evenly over the project's own
engine and compute pools. One engine is killed (``kill -9`` of its Python; its JVM ends by itself), and records arrive
meanwhile. The program fails unless the jobs of the others go on as they were, the engine comes back, and each topic has
each record once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.house import STORES, House, open_house
from benchmarks.measure import children, cpu_seconds, proportional_megabytes, say
from benchmarks.throughput import CLICKS, FILTER, clicks
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.pools import pool_settings
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places
from ds_dagster.settings import load_settings

OUT = Path(__file__).parent / "out" / "pools.json"
TOPIC = "pools_in"
TOML = 'store = "k"\n[engine]\ncores = 2\nmemory = "{memory}"\n'
POOL = "CREATE COMPUTE_POOL {pool} WITH ('compute_pool.cores' = 2, 'compute_pool.memory' = '{memory}');"
IN_POOL = " QUERY WITH ('compute_pool' = '{pool}');"
RECORDS = 300
"""Records of each of two loads, of which a third passes the filter: before and after the kill."""
PAUSE = 0.25


@dataclass
class Fleet:
    """The engines and their jobs; the name of the project's own engine is empty."""

    control: Control
    project: LoadedProject
    jobs: dict[str, list[str]]
    seconds: float

    @property
    def names(self) -> list[str]:
        return [name for names in self.jobs.values() for name in names]

    def pid(self, pool: str) -> int:
        """Of an engine's Python; 0 if it does not run."""
        holder = locks.holder(Places(self.project.settings.state, pool).python_lock)
        return int(str(holder["pid"])) if holder else 0

    def pids(self, pool: str) -> list[int]:
        """An engine's Python and all below it."""
        return children(self.pid(pool))

    def wait(self, names: Sequence[str], what: str) -> float:
        """Seconds until each job has been RUNNING: on a busy machine, some engine is always late with its report."""
        begun = told = time.monotonic()
        missing = set(names)
        while True:
            statuses = self.control.statuses(sorted(missing))
            missing -= {status.name for status in statuses if status.state == "RUNNING"}
            now = time.monotonic()
            if not missing:
                return now - begun
            bad = [status for status in statuses if status.state == "FAILED"]
            if bad or now - begun > self.seconds:
                raise SystemExit(f"{what}: {len(missing)} jobs are not RUNNING; {bad[:1]}")
            if now - told > 15:
                say(f"  {what}: {len(names) - len(missing)} of {len(names)} jobs after {now - begun:.0f} s")
                told = now
            time.sleep(PAUSE)

    def incarnations(self, names: Sequence[str]) -> dict[str, str]:
        return {status.name: status.incarnation for status in self.control.statuses(names)}


def measure(house: House, jobs: int, engines: int, memory: str, seconds: float) -> dict[str, Any]:
    """All of it, as the program prints it."""
    fleet = _fleet(house, jobs, engines, memory, seconds)
    found: dict[str, Any] = {"jobs": jobs, "engines": engines, "heap": memory, "cores": os.cpu_count()}
    try:
        found["start"] = _start(fleet)
        house.fill(TOPIC, clicks(RECORDS, 50))
        _arrived(house, fleet, RECORDS // 3)
        found["idle"] = _idle(fleet)
        found["kill"] = _kill(house, fleet, list(fleet.jobs)[1])
    finally:
        for pool in fleet.jobs:
            stop_engine(pool_settings(fleet.project.settings, pool), kill=True)
    return found


def _fleet(house: House, jobs: int, engines: int, memory: str, seconds: float) -> Fleet:
    pools = ["", *(f"pool_{number}" for number in range(1, engines))]
    named = {pool: [f"job_{pool or 'own'}_{number}" for number in range(jobs // engines)] for pool in pools}
    statements = [STORES, CLICKS.format(topic=TOPIC), *(POOL.format(pool=pool, memory=memory) for pool in pools[1:])]
    for pool, names in named.items():
        end = IN_POOL.format(pool=pool) if pool else ";"
        statements += [FILTER.format(name=name, bound="").removesuffix(";") + end for name in names]
    (house.root / "ds.toml").write_text(TOML.format(memory=memory), encoding="utf-8")
    (house.root / "sql" / "pools.sql").write_text("\n".join(statements), encoding="utf-8")
    settings = load_settings(house.root)
    house.topic(TOPIC)
    return Fleet(Control.open(settings), load_project(house.root, settings=settings, strict=True), named, seconds)


def _start(fleet: Fleet) -> dict[str, float]:
    """All engines and jobs at once, as `ds apply` requests them."""
    begun = time.monotonic()
    fleet.control.ensure(fleet.project, fleet.names, "ensure", "benchmark")
    requested = time.monotonic() - begun
    fleet.control.ensure_engines(fleet.names, fleet.seconds)
    ready = time.monotonic() - begun
    fleet.wait(fleet.names, "start")
    total = time.monotonic() - begun
    cpu = sum(cpu_seconds(fleet.pids(pool)) for pool in fleet.jobs)
    stage = {"requested_s": requested, "engines_ready_s": ready, "all_running_s": total, "cpu_s": cpu}
    say(f"start: {stage}")
    return stage


def _idle(fleet: Fleet, seconds: float = 20.0) -> dict[str, Any]:
    """Memory and CPU of each engine while nothing happens."""
    time.sleep(5)
    before, begun = {pool: cpu_seconds(fleet.pids(pool)) for pool in fleet.jobs}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begun
    used = {pool: 100 * (cpu_seconds(fleet.pids(pool)) - before[pool]) / took for pool in fleet.jobs}
    stage = {
        pool or "default": {"memory_mb": proportional_megabytes(fleet.pids(pool)), "cpu_percent_of_a_core": used[pool]}
        for pool in fleet.jobs
    }
    say(f"idle: {stage}")
    return stage


def _kill(house: House, fleet: Fleet, pool: str) -> dict[str, Any]:
    """Kill one engine, write records, start it again, and count the records of all jobs."""
    others = [name for other, names in fleet.jobs.items() if other != pool for name in names]
    pids = {other: fleet.pid(other) for other in fleet.jobs if other != pool}
    before, all_of_it = fleet.incarnations(others), fleet.pids(pool)
    os.kill(fleet.pid(pool), signal.SIGKILL)
    begun = time.monotonic()
    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in all_of_it), 60, "the end of its JVM")
    gone = time.monotonic() - begun
    house.fill(TOPIC, clicks(RECORDS, 50))
    fed = time.monotonic()
    _arrived(house, fleet, 2 * RECORDS // 3, others)
    served = time.monotonic() - fed
    begun = time.monotonic()
    fleet.control.ensure_engine(fleet.seconds, pool)
    ready = time.monotonic() - begun
    fleet.wait(fleet.jobs[pool], "back")
    back = time.monotonic() - begun
    _arrived(house, fleet, 2 * RECORDS // 3)
    untouched = fleet.incarnations(others) == before and {other: fleet.pid(other) for other in pids} == pids
    if not untouched:
        raise SystemExit("jobs of other engines were started again")
    stage = {
        "all_processes_gone_s": gone,
        "others_served_all_s": served,
        "engine_ready_again_s": ready,
        "jobs_running_again_s": back,
        "others_untouched": untouched,
        "records_missing_or_twice": 0,
    }
    say(f"kill: {stage}")
    return stage


def _until(done: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"not within {seconds:.0f} s: {what}")
        time.sleep(PAUSE)


def _arrived(house: House, fleet: Fleet, each: int, names: Sequence[str] = ()) -> None:
    """Wait until every job has written so many records; fails if one has written more."""
    wanted = dict.fromkeys(names or fleet.names, each)
    end = time.monotonic() + fleet.seconds
    while True:
        found = _counted(house.bootstrap, list(wanted))
        twice = {name: found[name] for name in wanted if found[name] > each}
        if twice:
            raise SystemExit(f"more than {each} records: {twice}")
        if all(found[name] == each for name in wanted):
            return
        if time.monotonic() > end:
            raise SystemExit(f"missing: { {name: found[name] for name in wanted if found[name] < each} }")
        time.sleep(2)


def _counted(bootstrap: str, topics: Sequence[str]) -> Counter[str]:
    """Committed records of each topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "count", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    found: Counter[str] = Counter()
    try:
        known = consumer.list_topics(timeout=30).topics
        parts = [TopicPartition(name, part, 0) for name in topics if name in known for part in known[name].partitions]
        consumer.assign(parts)
        open_parts = {(part.topic, part.partition) for part in parts}
        while open_parts:
            for message in consumer.consume(1000, timeout=5):
                if message.error():
                    open_parts.discard((message.topic(), message.partition()))
                else:
                    found[str(message.topic())] += 1
    finally:
        consumer.close()
    return found


def main() -> int:
    """Measure and write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pools", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--memory", default="2g", help="heap of each engine")
    parser.add_argument("--seconds", type=float, default=900, help="how long each step may take")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    with open_house(["kafka"]) as house:
        found = measure(house, asked.jobs, asked.engines, asked.memory, asked.seconds)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
