"""What leaves for one key is never all in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.jvm import small_heap

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", small_heap.KINDS)
def test_one_row_meets_more_than_the_heap_holds(kind: str, tmp_path: Path) -> None:
    """In a process of its own: the heap of a JVM is chosen when it starts."""
    command = [sys.executable, "-m", "tests.spark.jvm.small_heap", kind, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.split()[-1] == str(small_heap.MANY)
