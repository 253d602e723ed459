"""Transactions of tasks in two phases, without Spark around: decisions are finished, lost attempts aborted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ds_dagster import jars
from tests.spark.jvm.test_timed_rows import run_model

pytestmark = [pytest.mark.spark, pytest.mark.servers]
INTERNALS = Path(__file__).parents[3] / "jvm" / "src" / "dsdagster" / "kafka" / "KafkaInternals.java"


def test_what_is_decided_is_finished_and_all_else_aborted(broker: Any, tmp_path: Path) -> None:
    topic = broker.topic(2)
    job = f"job/{topic}"
    clients = jars.resolve("spark-kafka")
    ended = run_model(tmp_path, "TwoPhases", broker.address, topic, job, package="dsdagster.kafka.", more=clients)
    assert ended == "right"
    assert sorted(message.value() for message in broker.read(topic)) == [b"a0", b"a1", b"b0", b"b1"]
    committed, ends = (broker.ends(topic, kind) for kind in ("read_committed", "read_uncommitted"))
    assert (committed[0], committed[1] < ends[1]) == (ends[0], True), "only what is of somebody else is open"


def test_the_version_of_the_client_is_the_one_that_is_shipped() -> None:
    """Two phases need private members of kafka-clients: with another version they are tried out first."""
    known = re.search(r'VERSION = "([\d.]+)"', INTERNALS.read_text(encoding="utf-8"))
    assert known is not None
    shipped = [one.coordinates for one in jars.locked_sets()["spark-kafka"] if "kafka-clients" in one.coordinates]
    assert shipped == [f"org.apache.kafka:kafka-clients:{known[1]}"]
