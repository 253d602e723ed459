"""What operators keep of a key, without Spark around: random operations on rows in buckets give what a plain sorted
list gives, and nothing stays in the store; what earlier versions wrote is read on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from ds_dagster import jars
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

SEED = seed(1)
OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
"""Packages of Java that Spark reads by reflection."""


def run_model(
    folder: Path, name: str, *arguments: str, package: str = "", more: Iterable[Path] = (), is_spark: bool = False
) -> str:
    """What a Java program beside this file prints; ``more``: jars that it needs; ``is_spark``: it starts a session."""
    spark = (jars.pyspark_home() / "jars").glob("*.jar")
    class_path = os.pathsep.join(map(str, (jars.operator_jar(), *more, *spark, folder)))
    source = str(Path(__file__).with_name(f"{name}.java"))
    compiler = jars._compiler(None)[1]
    subprocess.run([*compiler, "-nowarn", "-cp", class_path, "-d", str(folder), source], check=True)
    opened = [f"--add-opens=java.base/{package_}=ALL-UNNAMED" for package_ in OPENED] if is_spark else []
    command = [jars.java_command(), *opened, "-cp", class_path, package + name, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or ended.stderr[-4000:]


def test_buckets_equal_a_sorted_list(tmp_path: Path) -> None:
    assert run_model(tmp_path, "TimedRowsModel", str(SEED), "200") == "equal"


def test_patterns_of_earlier_versions_are_read_on(tmp_path: Path) -> None:
    assert run_model(tmp_path, "EarlierPatterns", package="dsdagster.match.") == "equal"


def test_ways_of_searches_equal_a_plain_list(tmp_path: Path) -> None:
    """In chunks of one step and more, stored and read between steps, back and forth over the ends of chunks."""
    assert run_model(tmp_path, "WayModel", str(SEED), "200", package="dsdagster.match.") == "equal"
