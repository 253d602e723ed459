"""Locked jars and the operator jar: fetched once, verified, safe for two processes, clear when something is missing."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ds_dagster import jars
from ds_dagster.errors import DsError, ExternalError, UserError

REAL_PATH = os.environ["PATH"]
JAR = b"not really a jar"
LOCKED = jars.Artifact("org.example", "thing", "1.0", len(JAR), hashlib.sha256(JAR).hexdigest())
FAKE_MVN = """#!/bin/sh
echo run >> "{log}"
if [ "$(wc -l < "{log}")" -le {failures} ]; then echo "[ERROR] {message}"; exit 1; fi
for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${{word#*=}}";; esac; done
mkdir -p "$out"
cp "{jar}" "$out/thing-1.0.jar"
echo "Downloaded from central: https://example.org/thing-1.0.jar (1 kB)"
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def one_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "locked_sets", lambda: {"things": (LOCKED,)})
    monkeypatch.setattr("ds_dagster.jars.time.sleep", lambda seconds: None)


@pytest.fixture
def fake_mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts an ``mvn`` on the path that serves one file; returns the log with one line per run."""

    def install(content: bytes = JAR, failures: int = 0, message: str = "no route to host") -> Path:
        log, jar, folder = tmp_path / "mvn.log", tmp_path / "served.jar", tmp_path / "bin"
        folder.mkdir()
        jar.write_bytes(content)
        log.touch()
        script = folder / "mvn"
        script.write_text(FAKE_MVN.format(log=log, failures=failures, message=message, jar=jar))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{REAL_PATH}")
        monkeypatch.setattr(jars, "_fetch_tools", lambda: [jars._mvn])
        return log

    return install


def runs(log: Path) -> int:
    return len(log.read_text().splitlines())


# --- the lock ---------------------------------------------------------------------------------------------------------


def test_the_lock_names_every_jar_exactly() -> None:
    for name, artifacts in jars.locked_sets().items():
        assert artifacts, name
        assert len({artifact.file_name for artifact in artifacts}) == len(artifacts)
        for artifact in artifacts:
            assert all(artifact.coordinates.split(":")), artifact
            assert not set(artifact.version) & set("[](),+"), "a range is not a lock"
            assert len(artifact.sha256) == 64
            assert artifact.size > 0


def test_the_connector_brings_nothing_that_pyspark_has() -> None:
    there = {path.name.rsplit("-", 1)[0] for path in (jars.pyspark_home() / "jars").glob("*.jar")}
    ours = {artifact.artifact for artifact in jars.locked_sets()["spark-kafka"]}
    assert len(ours) == 5
    assert not ours & there


def test_the_connector_is_the_one_of_the_pinned_spark() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    connector = next(a for a in jars.locked_sets()["spark-kafka"] if a.artifact.startswith("spark-sql-kafka"))
    assert f'"pyspark=={connector.version}"' in project


def test_no_repository_host_is_written_down() -> None:
    package = Path(jars.__file__).parent
    for path in (package / "jars.lock.json", package / "local" / "kinesalite" / "package-lock.json"):
        assert "://" not in json.dumps([v for k, v in _leaves(json.loads(path.read_text())) if k != "url"])


def _leaves(tree: object, key: str = "") -> list[tuple[str, str]]:
    if isinstance(tree, dict):
        return [leaf for name, value in tree.items() for leaf in _leaves(value, name)]
    if isinstance(tree, list):
        return [leaf for value in tree for leaf in _leaves(value, key)]
    return [(key, str(tree))]


# --- fetching ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_jar")
def test_a_set_is_fetched_once_and_then_found(fake_mvn: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_mvn()
    lines: list[str] = []
    (path,) = jars.resolve("things", lines.append)
    assert path.read_bytes() == JAR
    assert any("thing-1.0.jar" in line for line in lines)
    monkeypatch.setenv("PATH", "")  # no java, no mvn: a complete cache needs neither
    assert jars.resolve("things", lines.append) == (path,)
    assert runs(log) == 1


@pytest.mark.usefixtures("one_jar")
def test_a_file_that_was_cut_off_is_fetched_again(fake_mvn: Callable[..., Path]) -> None:
    log = fake_mvn()
    (path,) = jars.resolve("things")
    path.write_bytes(JAR[:3])
    assert jars.resolve("things")[0].read_bytes() == JAR
    assert runs(log) == 2


@pytest.mark.usefixtures("one_jar")
def test_a_failed_fetch_is_tried_again(fake_mvn: Callable[..., Path]) -> None:
    log = fake_mvn(failures=2)
    assert jars.resolve("things")[0].read_bytes() == JAR
    assert runs(log) == 3


@pytest.mark.usefixtures("one_jar")
def test_giving_up_says_why(fake_mvn: Callable[..., Path], own_cache: Path) -> None:
    log = fake_mvn(failures=99)
    with pytest.raises(ExternalError) as caught:
        jars.resolve("things")
    assert caught.value.condition == "JARS_FETCH_FAILED"
    assert "no route to host" in caught.value.detail
    assert runs(log) == jars.FETCH_ROUNDS
    assert not list((own_cache / "jars").glob("things-*")), "nothing half-fetched stays"


@pytest.mark.usefixtures("one_jar")
def test_a_missing_coordinate_is_named(fake_mvn: Callable[..., Path]) -> None:
    fake_mvn(failures=99, message="Could not find artifact org.example:thing:jar:1.0 in central")
    with pytest.raises(ExternalError) as caught:
        jars.resolve("things")
    assert caught.value.condition == "JAR_NOT_FOUND"
    assert "org.example:thing:1.0" in str(caught.value)


@pytest.mark.usefixtures("one_jar")
def test_a_repository_out_of_reach_is_not_one_without_the_jar(fake_mvn: Callable[..., Path]) -> None:
    lost = "UnknownHostException: repo; Could not find artifact org.example:thing:jar:1.0 in central"
    fake_mvn(failures=99, message=lost)
    with pytest.raises(ExternalError) as caught:
        jars.resolve("things")
    assert caught.value.condition == "JARS_FETCH_FAILED"


@pytest.mark.usefixtures("one_jar")
def test_another_file_than_the_locked_one_is_refused(fake_mvn: Callable[..., Path]) -> None:
    fake_mvn(content=b"something else!!")
    with pytest.raises(ExternalError) as caught:
        jars.resolve("things")
    assert caught.value.condition == "JAR_CHANGED"
    assert not jars.is_resolved("things")


def test_an_unknown_set_is_our_bug() -> None:
    with pytest.raises(DsError) as caught:
        jars.resolve("nothing")
    assert caught.value.condition == "JAR_SET_UNKNOWN"


TWICE = """
import sys
from ds_dagster import jars
jars.locked_sets = lambda: {"things": (jars.Artifact("org.example", "thing", "1.0", int(sys.argv[1]), sys.argv[2]),)}
jars._fetch_tools = lambda: [jars._mvn]
print(jars.resolve("things")[0].read_bytes())
assert "pyspark" not in sys.modules
"""


def test_two_processes_fetch_once(fake_mvn: Callable[..., Path]) -> None:
    log = fake_mvn()
    command = [sys.executable, "-c", TWICE, str(LOCKED.size), LOCKED.sha256]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0].strip() for process in started] == [repr(JAR)] * 3
    assert runs(log) == 1


IVY_SETTINGS = """<ivysettings><settings defaultResolver="local"/><resolvers>
<filesystem name="local" m2compatible="true">
<ivy pattern="{root}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
<artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>thing</artifactId>
<version>1.0</version><dependencies><dependency><groupId>org.example</groupId><artifactId>other</artifactId>
<version>9</version></dependency></dependencies></project>"""


@pytest.mark.servers
@pytest.mark.usefixtures("one_jar")
@pytest.mark.parametrize("there", [True, False])
def test_the_ivy_of_pyspark_fetches_without_transitive_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    folder = tmp_path / "repository" / "org" / "example" / "thing" / "1.0"
    folder.mkdir(parents=True)
    if there:
        (folder / "thing-1.0.pom").write_text(POM)
        (folder / "thing-1.0.jar").write_bytes(JAR)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS.format(root=tmp_path / "repository"))
    monkeypatch.setenv("DS_IVY_SETTINGS", str(settings))
    monkeypatch.setattr(jars, "_fetch_tools", lambda: [jars._ivy])
    monkeypatch.setattr(jars, "FETCH_ROUNDS", 1)
    if there:
        assert [path.name for path in jars.resolve("things")] == ["thing-1.0.jar"]
    else:
        with pytest.raises(ExternalError) as caught:
            jars.resolve("things")
        assert caught.value.condition == "JAR_NOT_FOUND"
        assert "org.example:thing:1.0" in str(caught.value)


# --- Java -------------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, version_text: str, release: str = "") -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n")
    java.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return folder


def test_no_java_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UserError) as caught:
        jars.java_command()
    assert caught.value.condition == "JAVA_MISSING"
    assert "openjdk" in caught.value.hint


@pytest.mark.parametrize("release", ["", "1.8.0_392"])
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", 'openjdk version "1.8.0_392"', release)))
    with pytest.raises(UserError) as caught:
        jars.java_command()
    assert caught.value.condition == "JAVA_TOO_OLD"
    assert caught.value.params["found"] == "8.0"


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", 'openjdk version "21.0.4" 2024-07-16')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert jars.java_command() == str(home / "bin" / "java")
    assert jars.java_version(jars.java_command()) == "21.0.4"


# --- the operator jar -------------------------------------------------------------------------------------------------

GOOD = """package demo;
/** Uses Spark's and Kafka's types, so that both are on the class path. */
public final class Good {
  public static String names() {
    return org.apache.spark.sql.types.DataTypes.LongType.typeName()
        + org.apache.kafka.clients.producer.ProducerConfig.ACKS_CONFIG;
  }
}
"""


def sources_of(folder: Path, text: str) -> jars.JavaSources:
    (folder / "src" / "demo").mkdir(parents=True)
    (folder / "src" / "demo" / "Good.java").write_text(text)
    (folder / "resources" / "META-INF" / "services").mkdir(parents=True)
    (folder / "resources" / "META-INF" / "services" / "demo.Service").write_text("demo.Good\n")
    return jars.JavaSources(folder / "src", folder / "resources", "0123456789abcdef")


@pytest.fixture
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's own cache: these tests need the real jars, fetched once."""
    monkeypatch.delenv("DS_CACHE")


def java_of(code: bytes) -> int:
    """The version of Java that a class file needs."""
    return int.from_bytes(code[6:8], "big") - 44


def use_compiler(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    if compiler == "javac" and shutil.which("javac") is None:
        pytest.skip("only a Java runtime here")
    if compiler == "ecj":
        ecj = jars.resolve("ecj")[0]
        command = [jars.java_command(), jars.QUICK_JAVA, "-jar", str(ecj), f"-{jars.JAVA_RELEASE}", "-proc:none"]
        monkeypatch.setattr(jars, "_compiler", lambda progress: ("ECJ", command))


@pytest.mark.servers
@pytest.mark.usefixtures("shared_cache")
def test_the_same_sources_give_the_same_jar(tmp_path: Path) -> None:
    sources = sources_of(tmp_path, GOOD)
    first, second = tmp_path / "a" / "x.jar", tmp_path / "b" / "x.jar"
    jars.build_operator_jar(sources, first)
    jars.build_operator_jar(sources, second)
    assert first.read_bytes() == second.read_bytes()
    assert jars.jar_key(first) == sources.key
    with zipfile.ZipFile(first) as archive:
        code = archive.read("demo/Good.class")
        assert archive.read("META-INF/services/demo.Service") == b"demo.Good\n"
    assert java_of(code) == 17


@pytest.mark.servers
@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("compiler", ["javac", "ecj"])
def test_a_mistake_is_shown_by_both_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    use_compiler(monkeypatch, compiler)
    sources = sources_of(tmp_path, GOOD.replace("LongType", "NoSuchType"))
    with pytest.raises(UserError) as caught:
        jars.build_operator_jar(sources, tmp_path / "x.jar")
    assert caught.value.condition == "OPERATOR_BUILD_FAILED"
    assert "Good.java" in caught.value.detail
    assert "NoSuchType" in caught.value.detail
    assert not (tmp_path / "x.jar").exists()


@pytest.mark.servers
@pytest.mark.usefixtures("shared_cache")
def test_the_other_compiler_builds_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The set-up has built them with javac where there is one."""
    use_compiler(monkeypatch, "ecj")
    sources, jar = jars.operator_sources(), tmp_path / "x.jar"
    jars.build_operator_jar(sources, jar)
    assert jars.jar_key(jar) == sources.key
    with zipfile.ZipFile(jar) as archive:
        classes = [name for name in archive.namelist() if name.endswith(".class")]
        assert {java_of(archive.read(name)) for name in classes} == {17}
        assert any(name.startswith("META-INF/services/") for name in archive.namelist())


@pytest.mark.servers
@pytest.mark.usefixtures("shared_cache")
def test_the_operator_jar_is_built_once() -> None:
    first = jars.operator_jar()
    lines: list[str] = []
    assert jars.operator_jar(lines.append) == first
    assert lines == []
    assert jars.jar_key(first) == jars.operator_sources().key


def test_a_changed_source_changes_the_key(tmp_path: Path) -> None:
    sources_of(tmp_path, GOOD)
    before = jars._source_key(tmp_path)
    (tmp_path / "src" / "demo" / "Good.java").write_text(GOOD + "\n")
    assert jars._source_key(tmp_path) != before


# --- without PySpark --------------------------------------------------------------------------------------------------


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that only builds the wheel."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyspark" else found(name, *a))

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.usefixtures("no_pyspark")
def test_without_pyspark_the_operators_are_compiled_against_the_locked_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "resolve", lambda name, progress=None: (Path(f"/cache/{name}.jar"),))
    assert jars._spark_jars(None) == (Path("/cache/spark-compile.jar"),)


def test_the_key_of_the_sources_is_the_same_with_and_without_pyspark(request: pytest.FixtureRequest) -> None:
    installed = jars.operator_sources().key
    request.getfixturevalue("no_pyspark")
    assert jars.operator_sources().key == installed, (
        "a wheel built without PySpark carries the jar that is used with it"
    )


@pytest.mark.usefixtures("no_pyspark")
def test_without_pyspark_jars_are_fetched_by_maven_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(jars, "java_command", lambda: "java")
    assert [tool.__name__ for tool in jars._fetch_tools()] == ["_mvn"]
