"""Tasks that write to Kafka themselves, in two phases: no row is lost or doubled, whatever is killed when.

Two queries copy numbered rows and count them by key. The model is the rows that were sent: each is in the copy once, and
each key has each of its counts at most once, in order, up to the last one.
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

from ds_dagster.local.servers import down, up
from tests.e2e.cluster.standalone import Standalone
from tests.e2e.feeding import until
from tests.spark.jvm import prepared_tasks
from tests.spark.jvm.conftest import Broker

SEED = int(os.environ.get("DS_TEST_SEED", "20261128"))
KILLS = int(os.environ.get("DS_TEST_KILLS", "100"))
PARTITIONS = 4
KEYS = 7
POINTS = ("before-commit", "after-decision", "amid-commits")
"""Where the driver ends: all tasks have prepared, the marker is written, half of the transactions are committed."""
pytestmark = [pytest.mark.servers]


@dataclass
class Lab:
    """A broker, the program that runs the queries, and the rows that were sent."""

    folder: Path
    master: str
    broker: Broker
    sent: int = 0
    process: subprocess.Popen[str] | None = None
    topics: tuple[str, str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.topics = (self.broker.topic(PARTITIONS), self.broker.topic(2), self.broker.topic(2))

    def send(self, count: int) -> None:
        producer = self.broker.producer()
        for number in range(self.sent, self.sent + count):
            producer.produce(
                self.topics[0],
                json.dumps({"id": number}).encode(),
                key=str(number % KEYS).encode(),
                partition=number % PARTITIONS,
            )
            producer.poll(0)
        assert producer.flush(30) == 0
        self.sent += count

    def start(self, fault: str = "") -> None:
        command = [sys.executable, prepared_tasks.__file__, self.broker.address, *self.topics, str(self.folder)]
        self.process = subprocess.Popen(
            [*command, self.master, fault], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def wait(self) -> str:
        """What the program printed when it has ended by itself."""
        assert self.process is not None
        printed, _ = self.process.communicate(timeout=180)
        return printed.strip()

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
    lab = Lab(tmp_path, "local-cluster[2,1,1024]", Broker(local_servers("kafka").kafka))
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
