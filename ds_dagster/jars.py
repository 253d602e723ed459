"""Jars: exact sets of Maven coordinates, fetched once into a cache, and our own operator jar.

``jars.lock.json`` beside this file names every jar with its coordinates, size and SHA-256; nothing is resolved
transitively at run time. A set is fetched by ``mvn`` where it is on the path, else by the Ivy inside PySpark, into a
folder that appears only when it is complete. Later calls only check the files: no network, no subprocess.

The cache is ``DS_CACHE``, else the user's cache folder. Two processes at once are safe: a file lock serialises them.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from ds_dagster.errors import DsError, error
from ds_dagster.jar_file import jar_key, pack

Progress = Callable[[str], None]
"""Receives one line of text for a person, at most a few times a second."""

JAVA_RELEASE = 17
QUICK_JAVA = "-XX:TieredStopAtLevel=1"  # for compilers: they end before Java's optimizing compiler pays off
OPERATOR_JAR = "ds-dagster-operators.jar"
FETCH_ROUNDS, FETCH_SECONDS = 3, 900.0

_PACKAGE = Path(__file__).parent
_LOCK_FILE = _PACKAGE / "jars.lock.json"
_MISSING = re.compile(
    r"(?:UNRESOLVED DEPENDENCY: |:: |Could not find artifact )([\w.\-]+)[#:]([\w.\-]+)(?::jar)?[;:]([\w.\-]+)"
)
_UNREACHABLE = re.compile(r"UnknownHost|Server access error|Could not transfer|[Tt]imed out|Connection refused")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One locked jar: ``group:artifact:version``, size in bytes, SHA-256 in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def coordinates(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """Name in the cache: ``artifact-version.jar``."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class JavaSources:
    """What the operator jar is built from.

    Attributes:
        src: folder of packages.
        resources: folder packed as it is; may not exist.
        key: hash over sources, resources and the versions they are compiled against.
    """

    src: Path
    resources: Path
    key: str


# --- places -----------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """``DS_CACHE``, else ``ds_dagster`` in the user's cache folder (XDG, or Library/Caches on macOS)."""
    if os.environ.get("DS_CACHE"):
        return Path(os.environ["DS_CACHE"]).expanduser().absolute()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "ds_dagster"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "ds_dagster"


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, waiting for whoever has it; the system frees it when a process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def pyspark_home() -> Path:
    """The folder of the installed PySpark, found without importing it.

    Raises:
        UserError: PYSPARK_MISSING.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise error("PYSPARK_MISSING")
    return Path(next(iter(spec.submodule_search_locations)))


# --- Java -------------------------------------------------------------------------------------------------------------


def java_command() -> str:
    """Path of the Java to run, as Spark would choose it: ``JAVA_HOME`` first, else ``java`` on the path.

    Raises:
        UserError: JAVA_MISSING, JAVA_TOO_OLD.
    """
    home = os.environ.get("JAVA_HOME", "")
    path = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if path is None:
        searched = f"JAVA_HOME={home}" if home else "JAVA_HOME is not set, no java on the path"
        raise error("JAVA_MISSING", searched=searched)
    version = java_version(path)
    if int(version.split(".")[0]) < JAVA_RELEASE:
        raise error("JAVA_TOO_OLD", found=version, path=path, needed=JAVA_RELEASE)
    return path


@lru_cache(maxsize=8)
def java_version(path: str) -> str:
    """Version of a Java (``17.0.15``), read from its ``release`` file or by running it once.

    Raises:
        UserError: JAVA_MISSING when it does not run.
    """
    release = Path(path).resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8") if release.is_file() else ""
        if not text:
            text = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as problem:
        raise error("JAVA_MISSING", searched=path, detail=str(problem)) from problem
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+[\d.]*)', text)
    if match is None:
        raise error("JAVA_MISSING", searched=path, detail=text.strip())
    return match.group(1)


# --- locked sets ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def locked_sets() -> dict[str, tuple[Artifact, ...]]:
    """All sets of the lock file by name."""
    table = json.loads(_LOCK_FILE.read_text(encoding="utf-8"))
    return {name: tuple(_artifact(jar) for jar in entry["jars"]) for name, entry in table["sets"].items()}


def _artifact(jar: Mapping[str, Any]) -> Artifact:
    group, artifact, version = jar["coordinates"].split(":")
    return Artifact(group, artifact, version, jar["size"], jar["sha256"])


def set_folder(set_name: str) -> Path:
    """Folder of a set in the cache. Its name has a hash of the list, so an old cache is never used for a new list.

    Raises:
        InternalError: JAR_SET_UNKNOWN.
    """
    sets = locked_sets()
    if set_name not in sets:
        raise error("JAR_SET_UNKNOWN", set_name=set_name, known=sorted(sets))
    digest = hashlib.sha256("\n".join(a.coordinates + a.sha256 for a in sets[set_name]).encode()).hexdigest()
    return cache_folder() / "jars" / f"{set_name}-{digest[:12]}"


def is_resolved(set_name: str) -> bool:
    """Whether every jar of the set is in the cache with its full size."""
    folder = set_folder(set_name)
    return all(_size(folder / artifact.file_name) == artifact.size for artifact in locked_sets()[set_name])


def resolve(set_name: str, progress: Progress | None = None) -> tuple[Path, ...]:
    """The jars of a set, fetched if need be.

    Args:
        set_name: ``spark-kafka``, ``s3a``, ``spark-compile``, ``kafka-broker`` or ``ecj``.
        progress: receives a line for each step and each fetched jar; not called when the cache is complete.

    Raises:
        UserError: JAVA_MISSING, JAVA_TOO_OLD, PYSPARK_MISSING.
        ExternalError: JAR_NOT_FOUND, JARS_FETCH_FAILED, JAR_CHANGED.
    """
    folder = set_folder(set_name)
    artifacts = locked_sets()[set_name]
    if not is_resolved(set_name):
        with file_lock(folder.parent / f"{set_name}.lock"):
            if not is_resolved(set_name):
                _fetch(set_name, artifacts, folder, progress or silent)
    return tuple(folder / artifact.file_name for artifact in artifacts)


def silent(_line: str) -> None:
    """A progress that drops its lines."""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _fetch(set_name: str, artifacts: tuple[Artifact, ...], folder: Path, progress: Progress) -> None:
    tools = _fetch_tools()
    megabytes = sum(artifact.size for artifact in artifacts) / 1e6
    progress(f"fetching {len(artifacts)} jars of {set_name} ({megabytes:.0f} MB) with {tools[0].__name__.strip('_')}")
    attempts = [tool for _ in range(FETCH_ROUNDS) for tool in tools]
    output = ""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{set_name}-") as work:
        staged = Path(work, "staged")
        for number, tool in enumerate(attempts):
            time.sleep(min(number, 4))
            output = _run_lines(tool(artifacts, Path(work), staged), progress)
            if all((staged / artifact.file_name).is_file() for artifact in artifacts):
                _verify(artifacts, staged)
                shutil.rmtree(folder, ignore_errors=True)
                staged.rename(folder)
                progress(f"fetched {set_name}")
                return
            progress(f"attempt {number + 1} of {len(attempts)} failed")
    raise _fetch_failure(set_name, artifacts, len(attempts), output)


def _fetch_failure(set_name: str, artifacts: Sequence[Artifact], attempts: int, output: str) -> DsError:
    wanted = {artifact.coordinates for artifact in artifacts}
    missing = sorted(wanted & {":".join(coordinates) for coordinates in _MISSING.findall(output)})
    detail = "\n".join(output.strip().splitlines()[-15:])
    if missing and not _UNREACHABLE.search(output):
        return error("JAR_NOT_FOUND", coordinates=missing, detail=detail)
    return error("JARS_FETCH_FAILED", set_name=set_name, attempts=attempts, detail=detail)


def _fetch_tools() -> list[Callable[[Sequence[Artifact], Path, Path], list[str]]]:
    java_command()
    tools: list[Callable[[Sequence[Artifact], Path, Path], list[str]]] = [_mvn] if shutil.which("mvn") else []
    if not tools or importlib.util.find_spec("pyspark") is not None:
        tools.append(_ivy)  # raises PYSPARK_MISSING without PySpark
    return tools


def _ivy(artifacts: Sequence[Artifact], work: Path, out: Path) -> list[str]:
    """The command that retrieves a list with PySpark's Ivy, without transitive dependencies."""
    dependencies = "".join(
        f"<dependency org={quoteattr(a.group)} name={quoteattr(a.artifact)} rev={quoteattr(a.version)}"
        ' transitive="false" conf="default->master"/>'
        for a in artifacts
    )
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="ds_dagster" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    command = [java_command(), "-jar", str(ivy), "-ivy", str(module), "-confs", "default", "-cache", str(work / "ivy")]
    if os.environ.get("DS_IVY_SETTINGS"):
        command += ["-settings", os.environ["DS_IVY_SETTINGS"]]
    return [*command, "-retrieve", f"{out}/[artifact]-[revision].[ext]"]


def _mvn(artifacts: Sequence[Artifact], work: Path, out: Path) -> list[str]:
    """The command that copies a list with Maven, without transitive dependencies."""
    exclude = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.artifact}</artifactId>"
        f"<version>{a.version}</version>{exclude}</dependency>"
        for a in artifacts
    )
    pom = work / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>ds_dagster</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>",
        encoding="utf-8",
    )
    mvn = ["mvn", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    return [*mvn, f"-DoutputDirectory={out}", "-DincludeScope=runtime"]


def _run_lines(command: Sequence[str], progress: Progress) -> str:
    """Run a downloader, report each file and return its whole output; it is killed after ``FETCH_SECONDS``."""
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        limit = threading.Timer(FETCH_SECONDS, process.kill)
        limit.start()
        try:
            for line in process.stdout or ():
                lines.append(line)
                name = re.search(r"(?:downloading|Downloaded from).*/([^/\s]+\.jar)", line)
                if name:
                    progress(f"fetched {name.group(1)}")
        finally:
            limit.cancel()
    return "".join(lines)


def _verify(artifacts: Sequence[Artifact], folder: Path) -> None:
    for artifact in artifacts:
        digest = hashlib.sha256((folder / artifact.file_name).read_bytes()).hexdigest()
        if digest != artifact.sha256:
            raise error("JAR_CHANGED", coordinates=artifact.coordinates, expected=artifact.sha256, found=digest)


# --- what a driver needs ----------------------------------------------------------------------------------------------


def driver_jars(progress: Progress | None = None, *, in_bucket: bool = False) -> tuple[Path, ...]:
    """The jars of a driver besides Spark's own: connectors and our operators, for checkpoints ``in_bucket`` also an S3
    client; fetched and built if need be. Raises: what :func:`resolve` and :func:`operator_jar` raise."""
    client = resolve("s3a", progress) if in_bucket else ()
    return (*resolve("spark-kafka", progress), operator_jar(progress), *client)


# --- our own jar ------------------------------------------------------------------------------------------------------


def operator_jar(progress: Progress | None = None) -> Path:
    """The jar of Java operators: the wheel's where sources and versions are the same, else one built and cached.

    Raises:
        UserError: OPERATOR_BUILD_FAILED with the compiler's messages; what :func:`resolve` raises.
        InternalError: OPERATOR_SOURCES_MISSING.
    """
    sources = operator_sources()
    jar = built_operator_jar(sources)
    if jar is not None:
        return jar
    target = _operator_target(sources)
    with file_lock(target.parent.parent / "build.lock"):
        if not target.is_file():
            build_operator_jar(sources, target, progress)
    return target


def built_operator_jar(sources: JavaSources) -> Path | None:
    """The jar of these sources, None when it has to be built first."""
    packaged = _PACKAGE / "_jvm" / OPERATOR_JAR
    if packaged.is_file() and jar_key(packaged) == sources.key:
        return packaged
    target = _operator_target(sources)
    return target if target.is_file() else None


def _operator_target(sources: JavaSources) -> Path:
    return cache_folder() / "operators" / sources.key / OPERATOR_JAR


def operator_sources() -> JavaSources:
    """The Java sources: ``jvm/`` of a checkout, else those in the wheel.

    Raises:
        InternalError: OPERATOR_SOURCES_MISSING.
    """
    for folder in (_PACKAGE.parent / "jvm", _PACKAGE / "_jvm"):
        if any((folder / "src").rglob("*.java")):
            return JavaSources(folder / "src", folder / "resources", _source_key(folder))
    raise error("OPERATOR_SOURCES_MISSING")


def _spark_version() -> str:
    """Version of the installed PySpark; without one (when a wheel is built), of the jars to compile against."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return next(a.version for a in locked_sets()["spark-compile"] if a.artifact.startswith("spark-core"))


def _spark_jars(progress: Progress | None) -> tuple[Path, ...]:
    """Spark's classes for the compiler: PySpark's own jars, else the locked set."""
    if importlib.util.find_spec("pyspark") is None:
        return resolve("spark-compile", progress)
    return tuple(sorted((pyspark_home() / "jars").glob("*.jar")))


def _source_key(folder: Path) -> str:
    digest = hashlib.sha256(f"1 {JAVA_RELEASE} {_spark_version()}\n".encode())
    digest.update("\n".join(a.coordinates for a in locked_sets()["spark-kafka"]).encode())
    for part, pattern in (("src", "*.java"), ("resources", "*")):
        for path in sorted(p for p in (folder / part).rglob(pattern) if p.is_file()):
            digest.update(f"\n{path.relative_to(folder).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build_operator_jar(sources: JavaSources, target: Path, progress: Progress | None = None) -> None:
    """Compile the sources against Spark's jars and the Kafka client and write the jar in one step.

    Raises:
        UserError: OPERATOR_BUILD_FAILED; what :func:`resolve` raises.
    """
    tell = progress or silent
    class_path = [*_spark_jars(progress), *resolve("spark-kafka", progress)]
    name, compiler = _compiler(progress)
    tell(f"compiling the Java operators with {name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as work:
        classes, arguments, jar = Path(work, "classes"), Path(work, "arguments"), Path(work, OPERATOR_JAR)
        files = [str(path) for path in sorted(sources.src.rglob("*.java"))]
        options = ["-encoding", "UTF-8", "-nowarn", "-d", str(classes), "-cp", os.pathsep.join(map(str, class_path))]
        arguments.write_text("\n".join(f'"{text}"' for text in [*options, *files]), encoding="utf-8")
        classes.mkdir()
        command = [*compiler, f"@{arguments}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise error("OPERATOR_BUILD_FAILED", compiler=name, detail=(done.stdout + done.stderr).strip()[-8000:])
        pack(classes, sources.resources, sources.key, jar)
        jar.replace(target)
    tell("compiled the Java operators")


def _compiler(progress: Progress | None) -> tuple[str, list[str]]:
    """Name and command of the compiler: javac of the chosen Java or on the path, else ECJ run by that Java."""
    java = java_command()
    beside = Path(java).resolve().with_name("javac")
    javac = str(beside) if beside.is_file() else shutil.which("javac")
    if javac:
        return f"javac {java_version(javac)}", [javac, f"-J{QUICK_JAVA}", "--release", str(JAVA_RELEASE)]
    ecj = str(resolve("ecj", progress)[0])
    return f"ECJ on Java {java_version(java)}", [java, QUICK_JAVA, "-jar", ecj, f"-{JAVA_RELEASE}", "-proc:none"]
