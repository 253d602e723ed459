"""Spark may try a task again; what its first attempt sent must not be there beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.spark.jvm import retried_task
from tests.spark.jvm.test_jvm_sink import ids

pytestmark = [pytest.mark.spark, pytest.mark.servers]


def attempted(
    broker: Any, folder: Path, modes: Sequence[str], count: int, tail: str = ""
) -> tuple[list[str], list[str]]:
    """The topics that were written, one a mode, and the conditions that the runs of the program ended with. One program
    for all modes: its JVM takes most of the processor time."""
    origin, targets = broker.topic(2), [broker.topic(2) for _ in modes]
    broker.send(origin, [(i % 2, json.dumps({"id": i, "tail": tail})) for i in range(count)])
    pairs = [word for pair in zip(targets, modes, strict=True) for word in pair]
    command = [sys.executable, retried_task.__file__, broker.address, origin, str(folder), *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return targets, done.stdout.split()


def test_a_task_that_fails_after_it_has_sent(broker: Any, tmp_path: Path) -> None:
    """As a stream, and batch by batch."""
    targets, conditions = attempted(broker, tmp_path, ("stream", "batches"), 100)
    assert [ids(broker, target) for target in targets] == [Counter(range(100))] * 2
    assert conditions == ["KAFKA_TRANSACTION_ZOMBIE"] * 2


@pytest.mark.slow
def test_tasks_of_a_cluster_send_through_the_driver(broker: Any, tmp_path: Path) -> None:
    """Keys, headers, partitions and their order are those of the rows. In the same cluster: state of a run that has
    ended is closed on executors, two partitions of it, a Python that hosts lack is named, and both executors are named
    that are too busy to answer."""
    (target,), conditions = attempted(broker, tmp_path, ["cluster"], 3000, tail="x" * 400)
    assert conditions == [
        "CLUSTER_BATCH_TOO_LARGE",
        "SPARK_FAILED",
        "SPARK_FAILED",
        *["0", "2", "0"],
        "nothing",
        "CLUSTER_PYTHON_MISSING",
        "2",
    ]
    messages = broker.read(target)
    for partition in (0, 1):
        numbers = [json.loads(one.value())["id"] for one in messages if one.partition() == partition]
        assert numbers == list(range(partition, 3000, 2))
    assert all(one.key() == one.value() and one.headers() == [("copy", one.value())] for one in messages)
    assert len({one.timestamp() for one in messages}) == 1
