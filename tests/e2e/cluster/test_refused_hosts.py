"""What a cluster lacks when an engine starts on it: a real master and a worker, each lack of a host, each named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.standalone import HOST, Standalone, free_port

pytestmark = [pytest.mark.slow]
PROGRAM = """
import json, sys
from pathlib import Path
from ds_dagster import jars
from ds_dagster.errors import DsError
from ds_dagster.settings import load_settings
from ds_dagster.spark.cluster import check_executors
from ds_dagster.spark.session import build_session

settings = load_settings(Path(sys.argv[1]))
try:
    session = build_session(settings, jars=jars.driver_jars(), app_name="refused")
    check_executors(session, settings, runs_python=True)
    answer = ["", "", ""]
except DsError as problem:
    answer = [problem.condition, problem.message, problem.detail]
print("answer", json.dumps(answer))
"""
SPARK = {
    "spark.driver.host": HOST,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("spark"), workers=1)
    yield cluster
    cluster.close()


def refused(folder: Path, master: str, **spark: str) -> tuple[str, str, str]:
    """Condition, message and detail of an engine's start and of a job with Python; empty: nothing is refused."""
    folder.mkdir(exist_ok=True)
    properties = {**SPARK, **{name.replace("_", "."): value for name, value in spark.items()}}
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in properties.items()]
    (folder / "ds.toml").write_text("\n".join([f'[engine]\nmaster = "{master}"', "[spark]", *lines]))
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    answers = [line.removeprefix("answer ") for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert answers, done.stderr[-3000:]
    condition, message, detail = json.loads(answers[0])
    return condition, message, detail


def test_a_whole_host_is_not_refused(cluster: Standalone, tmp_path: Path) -> None:
    assert refused(tmp_path, cluster.url) == ("", "", "")


def test_a_host_without_python_or_its_modules_is_named(cluster: Standalone, tmp_path: Path) -> None:
    condition, message, detail = refused(tmp_path / "none", cluster.url, spark_pyspark_python="/nowhere/python")
    assert condition == "CLUSTER_PYTHON_MISSING"
    assert f"{HOST} (executor 0) cannot run /nowhere/python" in message
    assert "No such file" in detail
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    condition, message, detail = refused(tmp_path / "bare", cluster.url, spark_pyspark_python=str(bare))
    assert (condition, detail) == ("CLUSTER_PYTHON_MISSING", "it has no module ds_dagster")
    assert f"{HOST} (executor 0) cannot run {bare}" in message


def test_another_jar_on_a_host_is_named(cluster: Standalone, tmp_path: Path) -> None:
    from ds_dagster.jars import built_operator_jar, operator_sources

    jar = built_operator_jar(operator_sources())
    assert jar is not None
    other = tmp_path / "older.jar"
    with zipfile.ZipFile(jar) as ours, zipfile.ZipFile(other, "w") as theirs:
        for name in ours.namelist():
            text = ours.read(name)
            theirs.writestr(name, text.replace(b"Ds-Source-Key: ", b"Ds-Source-Key: 0") if "MANIFEST" in name else text)
    name = {"spark.executor.extraClassPath": str(other)}
    condition, message, _ = refused(tmp_path / "p", cluster.url, **name)
    assert condition == "CLUSTER_VERSION_SKEW"
    assert f"{HOST} (executor 0) runs the operator jar 0" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_host_that_does_not_see_the_state_folder_is_named(tmp_path: Path) -> None:
    """The worker has a file system of its own at the folder, as a host that did not mount it."""
    project = tmp_path / "p"
    (project / ".ds").mkdir(parents=True)
    hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{project / ".ds"}" && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], check=False).returncode:
        pytest.skip("this machine allows no mount")
    folder = tmp_path / "spark"
    folder.mkdir()
    cluster = Standalone(folder, workers=1, host=hidden)
    try:
        condition, message, _ = refused(project, cluster.url)
    finally:
        cluster.close()
    assert condition == "CLUSTER_FOLDER_MISSING"
    assert message == f"{HOST} (executor 0) does not see {project / '.ds'} as the engine does"


def test_a_master_that_is_not_there_is_named(tmp_path: Path) -> None:
    master = f"spark://{HOST}:{free_port()}"
    condition, message, _ = refused(tmp_path, master)
    assert (condition, message) == ("CLUSTER_MASTER_SILENT", f"no Spark master answers at {master}")


def test_an_address_of_another_host_is_named(cluster: Standalone, tmp_path: Path) -> None:
    condition, message, _ = refused(tmp_path, cluster.url, spark_driver_host="203.0.113.7")
    assert condition == "CLUSTER_ADDRESS_REFUSED"
    assert "203.0.113.7" in message


def test_executors_larger_than_the_workers_are_named(cluster: Standalone, tmp_path: Path) -> None:
    condition, message, _ = refused(tmp_path, cluster.url, spark_executor_memory="64g")
    assert condition == "CLUSTER_HAS_NO_EXECUTORS"
    assert cluster.url in message
