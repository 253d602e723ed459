"""A real registry: Apicurio 3.0.9 in memory, its Confluent interface; from Maven Central by the Ivy inside PySpark."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from ds_dagster.jars import QUICK_JAVA, cache_folder, file_lock, java_command, pyspark_home
from ds_dagster.local.ports import assign_ports
from tests.e2e.feeding import until

NAME, VERSION = "apicurio-registry-app", "3.0.9"
SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="apicurio"/><configurations><conf name="default"/></configurations><dependencies>
<dependency org="io.apicurio" name="{NAME}" rev="{VERSION}" transitive="false" conf="default->*">
<artifact name="{NAME}" type="tar.gz" ext="tar.gz" m:classifier="all"/></dependency></dependencies></ivy-module>"""
SETTINGS = """<ivysettings><settings defaultResolver="c"/><resolvers>
<ibiblio name="c" m2compatible="true" usepoms="false" useMavenMetadata="false"/></resolvers></ivysettings>"""
"""Without poms: the archive needs nothing else."""


def runner() -> Path:
    """The unpacked program, fetched once (109 MB)."""
    folder = cache_folder() / f"apicurio-{VERSION}"
    with file_lock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                _fetch(Path(work)).rename(folder)
    return next(folder.glob("*-runner.jar"))


def _fetch(work: Path) -> Path:
    (work / "ivy.xml").write_text(MODULE)
    (work / "settings.xml").write_text(SETTINGS)
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    command = [java_command(), "-jar", str(ivy), "-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")]
    command += ["-confs", "default", "-cache", str(work / "cache"), "-retrieve", f"{work}/[artifact].[ext]"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    archive = work / f"{NAME}.tar.gz"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    with tarfile.open(archive) as content:
        content.extractall(work / "app", filter="data")
    return work / "app"


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """URL of its Confluent interface."""
    port = assign_ports(folder, ["apicurio"])["apicurio"]
    environment = {**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"}
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    program = runner()
    with (folder / "apicurio.log").open("w") as log:
        command = [java_command(), "-Xmx400m", QUICK_JAVA, "-jar", str(program)]
        process = subprocess.Popen(command, cwd=program.parent, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: _answers(url), "the registry answers", 120)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/subjects").status_code == 200
    except httpx.TransportError:
        return False
