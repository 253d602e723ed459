"""Waiting for the executors of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.errors import DsError
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark import cluster

ROOT = Path("/project")
MASTER = "spark://head:7077"


@dataclass
class Cluster:
    """A session of a cluster whose executors of two cores register one after the other; the last count remains."""

    counts: Iterator[int]
    executors: int = 0
    sparkContext: Any = field(init=False)  # noqa: N815, Spark's name

    def __post_init__(self) -> None:
        scala = SimpleNamespace(
            getExecutorMemoryStatus=lambda: SimpleNamespace(size=self.count),
            defaultParallelism=lambda: max(2, 2 * self.executors),
        )
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala))

    def count(self) -> int:
        self.executors = next(self.counts, self.executors)
        return 1 + self.executors


WHOLE = cluster.HostReport(
    "worker-2 (executor 7)", "4.2.0", "k1", sees_file=True, python=cluster.PYTHON_HERE, problem=""
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("EXECUTOR_SECONDS", 0.3), ("SETTLED_SECONDS", 0.1), ("_PAUSE", 0.01)):
        monkeypatch.setattr(cluster, name, seconds)


def cores(session: Cluster, **spark: str) -> int:
    settings = Settings(root=ROOT, sql=ROOT, state=ROOT, engine=EngineSettings(master=MASTER), spark=spark)
    return cluster.registered_cores(session, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "spark", "expected"),
    [
        ([0, 0, 1, 2, 3], {}, 6),
        ([1, 2, 3], {cluster.INSTANCES: "3"}, 6),
        ([1], {cluster.INSTANCES: "8"}, 2),
    ],
)
def test_cores_are_counted_when_no_more_executors_come(counts: list[int], spark: dict[str, str], expected: int) -> None:
    assert cores(Cluster(iter(counts)), **spark) == expected


def test_a_cluster_without_executors_is_named() -> None:
    session = Cluster(iter(()))
    with pytest.raises(DsError, match=MASTER) as failure:
        cores(session)
    assert failure.value.condition == "CLUSTER_HAS_NO_EXECUTORS"


STOPPED = """An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."""
BOUND = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.net.BindException: bind(..) failed with error(-99): Cannot assign requested address: Service 'sparkDriver'"""
REFUSED = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext$.x(SparkContext.scala:1)
Caused by: java.net.ConnectException: Connection refused"""


@pytest.mark.parametrize(
    ("text", "master", "condition", "told"),
    [
        (STOPPED, MASTER, "CLUSTER_MASTER_SILENT", MASTER),
        (BOUND, MASTER, "CLUSTER_ADDRESS_REFUSED", "203.0.113.7"),
        (REFUSED, "k8s://https://api:443", "CLUSTER_START_FAILED", "java.net.ConnectException: Connection refused"),
        (STOPPED, "yarn", "CLUSTER_START_FAILED", "stopped SparkContext"),
    ],
)
def test_what_keeps_spark_from_starting_is_named(text: str, master: str, condition: str, told: str) -> None:
    spark = {"spark.driver.host": "203.0.113.7"}
    settings = Settings(root=ROOT, sql=ROOT, state=ROOT, engine=EngineSettings(master=master), spark=spark)
    problem = cluster.start_failure(text, settings, "4.2.0")
    assert problem.condition == condition
    assert told in f"{problem.message} {problem.detail}"


def test_yarn_needs_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it Spark ends the JVM before it says anything to us."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    settings = Settings(root=ROOT, sql=ROOT, state=ROOT, engine=EngineSettings(master="yarn"))
    with pytest.raises(DsError, match="yarn") as failure, cluster.starting(settings, "4.2.0"):
        raise AssertionError
    assert (failure.value.condition, failure.value.detail) == (
        "CLUSTER_START_FAILED", "HADOOP_CONF_DIR is not set for the engine",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lacks", "condition", "message"),
    [
        ({"sees_file": False}, "CLUSTER_FOLDER_MISSING", "does not see /mnt/ds as the engine does"),
        ({"spark": "4.1.1"}, "CLUSTER_VERSION_SKEW", "runs Spark 4.1.1, the engine Spark 4.2.0"),
        ({"jar": "k0"}, "CLUSTER_VERSION_SKEW", "runs the operator jar k0, the engine the operator jar k1"),
        (
            {"python": "Python 3.9 with ds_dagster 0.0.9"},
            "CLUSTER_VERSION_SKEW",
            f"runs Python 3.9 with ds_dagster 0.0.9, the engine {cluster.PYTHON_HERE}",
        ),
        (
            {"python": "", "problem": "it has no module pyarrow"},
            "CLUSTER_PYTHON_MISSING",
            "cannot run /env/python, which this job needs: it has no module pyarrow",
        ),
    ],
)
def test_what_a_host_lacks_is_named(lacks: dict[str, Any], condition: str, message: str) -> None:
    problem = cluster.problem_of(WHOLE, [WHOLE, replace(WHOLE, **lacks)], "/mnt/ds", "/env/python")
    assert problem is not None and problem.condition == condition
    assert f"worker-2 (executor 7) {message}" in f"{problem.message}: {problem.detail}"
    assert cluster.problem_of(WHOLE, [WHOLE], "/mnt/ds", "/env/python") is None


def test_a_host_that_does_not_see_the_bucket_is_named() -> None:
    lacks = replace(WHOLE, sees_file=False, problem="Access Denied")
    problem = cluster.problem_of(WHOLE, [lacks], "s3://bucket/ds", "")
    assert problem is not None and problem.condition == "CLUSTER_BUCKET_UNREACHABLE"
    assert (problem.params["host"], problem.detail) == ("worker-2 (executor 7)", "Access Denied")


def test_a_job_without_python_needs_none_on_the_hosts() -> None:
    assert cluster.problem_of(WHOLE, [replace(WHOLE, python="", problem="No such file")], "/mnt/ds", "") is None
