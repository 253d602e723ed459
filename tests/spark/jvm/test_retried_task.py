"""Spark may try a task again; what its first attempt sent must not be there beside it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spark.jvm import retried_task
from tests.spark.jvm.test_jvm_sink import fill, ids

pytestmark = [pytest.mark.spark, pytest.mark.servers]


@pytest.mark.parametrize("mode", ["stream", "batches"])
def test_a_task_that_fails_after_it_has_sent(broker: Any, tmp_path: Path, mode: str) -> None:
    origin, target = broker.topic(2), broker.topic(2)
    fill(broker, origin, 2, count=100)
    command = [sys.executable, retried_task.__file__, broker.address, origin, target, mode, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert ids(broker, target) == Counter(range(100))
    assert done.stdout.split() == ["KAFKA_TRANSACTION_ZOMBIE"]
