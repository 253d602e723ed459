"""Rows of a key in buckets: random operations give what a plain sorted list gives, and nothing stays in the store."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ds_dagster import jars
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

MODEL = Path(__file__).with_name("TimedRowsModel.java")
SEED = seed(1)


def test_buckets_equal_a_sorted_list(tmp_path: Path) -> None:
    spark = (jars.pyspark_home() / "jars").glob("*.jar")
    class_path = os.pathsep.join(map(str, (jars.operator_jar(), *spark, tmp_path)))
    compiler = jars._compiler(None)[1]
    subprocess.run([*compiler, "-nowarn", "-cp", class_path, "-d", str(tmp_path), str(MODEL)], check=True)
    command = [jars.java_command(), "-cp", class_path, "TimedRowsModel", str(SEED), "200"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["equal"], ended.stderr[-4000:]
