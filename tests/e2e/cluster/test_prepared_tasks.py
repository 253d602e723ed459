"""Tasks that write to Kafka themselves, in two phases: no row is lost or doubled, whatever is killed when.

Two queries copy numbered rows and count them by key. The model is the rows that were sent: each is in the copy once,
and each key has each of its counts at most once, in order, up to the last one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.local.servers import down, status, up
from tests.e2e.cluster.standalone import Standalone
from tests.e2e.feeding import Stream, is_dead, until
from tests.spark.jvm import prepared_tasks
from tests.spark.jvm.conftest import Broker

SEED = int(os.environ.get("DS_TEST_SEED", "20261128"))
KILLS = int(os.environ.get("DS_TEST_KILLS", "30"))
PARTITIONS = 4
KEYS = 7
POINTS = ("before-commit", "after-decision", "amid-commits")
"""Where the driver ends: all tasks have prepared, the marker is written, half of the transactions are committed."""


@dataclass
class Lab:
    """A broker, the program that runs the queries, and the rows that were sent."""

    folder: Path
    master: str
    broker: Broker
    sent: int = 0
    process: subprocess.Popen[bytes] | None = None
    topics: tuple[str, str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.topics = (self.broker.topic(PARTITIONS), self.broker.topic(2), self.broker.topic(2))

    def send(self, count: int) -> None:
        producer = self.broker.producer(**{"enable.idempotence": True})  # the broker may be away meanwhile
        for number in range(self.sent, self.sent + count):
            producer.produce(
                self.topics[0],
                json.dumps({"id": number}).encode(),
                key=str(number % KEYS).encode(),
                partition=number % PARTITIONS,
            )
            producer.poll(0)
        assert producer.flush(120) == 0
        self.sent += count

    def start(self, fault: str = "") -> None:
        command = [sys.executable, prepared_tasks.__file__, self.broker.address, *self.topics, str(self.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, self.master, fault], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(".log")

    def wait(self) -> None:
        """Until the program has ended by itself."""
        assert self.process is not None
        self.process.wait(240)

    def kill(self) -> None:
        """kill -9 of the program and its JVM."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)

    def copied(self) -> Counter[int]:
        return Counter(json.loads(message.value())["id"] for message in self.broker.read(self.topics[1]))

    def counts(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for message in self.broker.read(self.topics[2]):
            row = json.loads(message.value())
            found[row["k"]].append(row["n"])
        return found

    def is_open(self) -> bool:
        """Whether a reader of committed records has to wait."""
        kinds = ("read_committed", "read_uncommitted")
        return any(len({tuple(self.broker.ends(topic, kind)) for kind in kinds}) > 1 for topic in self.topics[1:])

    def check(self) -> None:
        """All that was sent arrives, once; then nothing is open."""
        expected = Counter(range(self.sent))
        until(lambda: self.copied().total() >= self.sent, lambda: f"{self.copied().total()} of {self.sent}", 240)
        assert self.copied() == expected
        totals = Counter(str(number % KEYS) for number in range(self.sent))
        until(lambda: {key: ns[-1] for key, ns in self.counts().items()} == totals, "the last counts are right", 240)
        for key, ns in self.counts().items():
            assert ns == sorted(set(ns)), f"counts of {key} are repeated or go back"
        until(lambda: not self.is_open(), "no transaction is open", 60)


def test_a_driver_that_ends_between_the_phases(local_servers: Callable[..., Any], tmp_path: Path) -> None:
    """At each point of the commit: what was decided is finished by the next driver, all else is aborted at once."""
    lab = Lab(tmp_path / "queries", "local-cluster[1,2,1024]", Broker(local_servers("kafka").kafka))
    try:
        for number, point in enumerate(POINTS):
            lab.send(500)
            lab.start(f"halt:{point}@{number}")
            lab.wait()
        lab.send(500)
        lab.start()
        lab.check()
    finally:
        lab.kill()


VICTIMS = ("driver", "driver", "executor", "executor", "worker", "broker")
CHECK_EVERY = 5


def batches(lab: Lab, name: str) -> tuple[int, int]:
    """The last planned and the last finished batch of a query, by its checkpoint."""
    names = [[path.name for path in (lab.folder / name / kind).glob("*")] for kind in ("offsets", "commits")]
    planned, finished = (max((int(one) for one in part if one.isdecimal()), default=-1) for part in names)
    return planned, finished


def until_in_batch(lab: Lab, name: str, chance: random.Random) -> None:
    """Until a batch runs, and for a random moment more. Four times in five, one was finished before it since the last
    kill; else what is killed may be starting."""
    if chance.random() < 0.8:
        before = batches(lab, name)[1]
        until(lambda: batches(lab, name)[1] > before, f"a batch of {name} ends", pause=0.05)
    until(lambda: batches(lab, name)[0] > batches(lab, name)[1], f"a batch of {name} runs", pause=0.002)
    for _ in range(chance.randrange(60)):
        batches(lab, name)  # takes a moment


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[tuple[Lab, Standalone]]:
    """A broker, a master and workers of this test alone."""
    state = tmp_path / "servers"
    cluster = Standalone(tmp_path)
    lab = Lab(tmp_path / "queries", cluster.url, Broker(up(state, only=("kafka",)).kafka))
    try:
        yield lab, cluster
    finally:
        lab.kill()
        cluster.close()
        down(state)


def kill(lab: Lab, cluster: Standalone, victim: str, chance: random.Random) -> None:
    """kill -9, and what brings the victim back where nobody else does."""
    if victim == "driver":
        lab.kill()
        lab.start()
    elif victim == "executor":
        until(cluster.executors, "an executor runs")
        cluster.kill_executor(chance.randrange(len(cluster.executors())))
    elif victim == "worker":
        cluster.kill_worker(chance.randrange(len(cluster.workers)))
        cluster.add_worker()
    else:
        state = lab.folder.parent / "servers"
        (pid,) = [found.pid for found in status(state) if found.name == "kafka"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_dead(pid), "the broker is dead", 60)
        up(state, only=("kafka",))


@pytest.mark.slow
def test_whatever_is_killed_in_a_batch(killable: tuple[Lab, Standalone]) -> None:
    """Kills by a seed, each while a batch runs, and a check after every few of them."""
    lab, cluster = killable
    lab.start()
    for number in range(KILLS):
        chance = random.Random(f"{SEED}-{number}")
        victim, query = chance.choice(VICTIMS), chance.choice((prepared_tasks.COPY, prepared_tasks.COUNTS))
        with Stream(lambda _: lab.send(40), pause=0.05):
            until_in_batch(lab, query, chance)
            print(f"seed {SEED}, kill {number}: {victim} in a batch of {query}", flush=True)
            kill(lab, cluster, victim, chance)
        if number % CHECK_EVERY == CHECK_EVERY - 1 or number == KILLS - 1:
            lab.check()
            print(f"{lab.sent} rows are right after {number + 1} kills", flush=True)
